//! [`Intrinsic`]: an instruction that guests use by importing a function of the module `hw`.
//!
//! ```text
//! (import "hw" "x86.aesenc" ...) ─ imports ─▶ Id, a function of the module after the host's
//!
//!   call $aesenc ─┬─ --cpu has aes ─▶ a patch point: a call that patch_point.rs replaces with the
//!                 │                   instruction, or a placeholder opcode that placeholder.rs
//!                 │                   replaces
//!                 └─ otherwise ─────▶ a call of the portable body
//!   a reference ────────────────────▶ the wrapper function: a patch point between parameters and
//!                                     result, or the portable body
//! ```
//!
//! The linker never sees an import of `hw`: the compiled module does not import it. The same holds
//! for a few imports of other modules that one operator computes ([`known`]).

mod aarch64;
pub(crate) mod placeholder;
pub(crate) mod known;
pub(crate) mod imports;
pub(crate) mod patch_point;
mod x86;

use pirn_format::cpu::{Arch, CpuFeatures};
use pirn_format::types::{FuncType, ValType};
use placeholder::PlaceholderOpcode;

/// The name of the module that guests import intrinsics from. A host module of this name is never
/// imported.
pub(crate) const MODULE: &str = "hw";

/// An instruction with the signature that guests see: a function of up to three parameters and one
/// result.
#[derive(Debug)]
pub(crate) struct Intrinsic {
    /// The name in [`MODULE`].
    pub(crate) name: &'static str,
    /// The architecture that has the instruction.
    arch: Arch,
    /// Types of the parameters. The immediate, if there is one, is the last.
    pub(crate) params: &'static [ValType],
    /// Type of the result.
    pub(crate) result: ValType,
    /// Mask of the bits that the immediate may have, if there is one. The immediate must be a
    /// constant in every call.
    pub(crate) immediate: Option<u8>,
    /// The processor feature that includes the instruction.
    pub(crate) feature: &'static str,
    /// How operands and result are assigned to registers.
    form: Form,
    /// The encoding of the instruction with the operands that [`Form`] defines. The immediate
    /// follows the encoding.
    code: &'static [u8],
    /// The placeholder opcode of the intrinsic, and the opcode that replaces the placeholder.
    /// Without a placeholder, each call is a patch point.
    pub(crate) placeholder: Option<(PlaceholderOpcode, u8)>,
}

/// The registers of an instruction's operands and result: the registers of a call in the C calling
/// convention, in the order of the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In the order of declaration. The result is in the first result register.
    Plain,
    /// The third parameter comes first, and the result is in the first parameter's register. For an
    /// instruction with an operand that is always in register 0.
    ThirdFirst,
}

/// How the parameters and the result of an intrinsic map to the call of a patch point.
pub(crate) struct Wiring {
    /// For each argument of the call, the index of the parameter.
    pub(crate) arguments: &'static [usize],
    /// The index of the call's result that is the intrinsic's result.
    pub(crate) result: usize,
}

/// An intrinsic, by its index in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(u16);

/// All intrinsics.
const TABLES: [&[Intrinsic]; 2] = [x86::INTRINSICS, aarch64::INTRINSICS];

impl Id {
    /// Every intrinsic.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let count: usize = TABLES.iter().map(|table| table.len()).sum();
        (0..count).map(|at| Self(at as u16))
    }

    /// The intrinsic of this name in [`MODULE`].
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::all().find(|id| id.get().name == name)
    }

    /// The description of the intrinsic.
    pub(crate) fn get(self) -> &'static Intrinsic {
        let mut all = TABLES.into_iter().flatten();
        let found = all.nth(usize::from(self.0));
        found.expect("an id is made from the tables")
    }

    /// Whether code for a processor with these features may use the instruction.
    pub(crate) fn is_promised(self, cpu: CpuFeatures) -> bool {
        let Intrinsic { arch, feature, .. } = self.get();
        *arch == cpu.arch() && cpu.has(feature)
    }
}

impl Intrinsic {
    /// The intrinsic's type as a function.
    pub(crate) fn ty(&self) -> FuncType {
        FuncType {
            params: self.params.to_vec(),
            results: vec![self.result],
        }
    }

    /// Every allowed value of the immediate.
    pub(crate) fn immediates(&self) -> impl Iterator<Item = u8> {
        let bits = self.immediate.unwrap_or(0);
        (0..=bits).filter(move |value| value & !bits == 0)
    }

    /// The allowed values of the immediate as text; empty if there is no immediate.
    pub(crate) fn immediates_listed(&self) -> String {
        match self.immediate {
            None => String::new(),
            Some(0xff) => "0x00 to 0xff".to_owned(),
            Some(_) => {
                let values = self.immediates().map(|value| format!("{value:#04x}"));
                values.collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The parameters other than the immediate.
    pub(crate) fn operands(&self) -> &'static [ValType] {
        let immediate = usize::from(self.immediate.is_some());
        &self.params[..self.params.len() - immediate]
    }

    pub(crate) fn wiring(&self) -> Wiring {
        let (arguments, result) = match self.form {
            Form::Plain => (&[0, 1, 2][..self.operands().len()], 0),
            Form::ThirdFirst => (&[2, 0, 1][..], 1),
        };
        Wiring { arguments, result }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_intrinsic_has_a_name_of_its_own_and_a_feature_that_exists() {
        let mut names = BTreeSet::new();
        for id in Id::all() {
            let intrinsic = id.get();
            let Intrinsic {
                name,
                feature,
                arch,
                ..
            } = intrinsic;
            assert!(names.insert(name), "two intrinsics have the name {name}");
            assert_eq!(Id::named(name), Some(id));
            let cpu = CpuFeatures::none(*arch).with(feature);
            assert!(id.is_promised(cpu.expect("the feature exists")), "{name}");
            assert!(!id.is_promised(CpuFeatures::none(*arch)), "{name}");
            assert!(intrinsic.params.len() <= 3, "{name}");
            if intrinsic.immediate.is_some() {
                assert_eq!(intrinsic.params.last(), Some(&ValType::I32), "{name}");
            }
        }
        assert_eq!(Id::named("x86.hcf"), None);
    }

    #[test]
    fn every_intrinsic_is_in_the_documentation() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/reference/intrinsics.md"
        );
        let docs = std::fs::read_to_string(page).expect(page);
        let is_import = |name: &str| name.contains('.') && !name.contains('/');
        let listed: BTreeSet<_> = docs
            .lines()
            .filter_map(|line| {
                let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
                let name = cells.next()?.trim_end_matches('`');
                let cells: Vec<_> = cells.map(|cell| cell.replace('`', "")).collect();
                is_import(name).then_some((name, cells))
            })
            .collect();
        let known: BTreeSet<_> = Id::all()
            .map(|id| {
                let Intrinsic { name, feature, .. } = id.get();
                let ty = id.get().ty().to_string();
                let immediates = id.get().immediates_listed();
                let cells = vec![ty, immediates, (*feature).to_owned(), String::new()];
                (*name, cells)
            })
            .collect();
        assert_eq!(listed, known);
    }

    #[test]
    fn a_placeholder_opcode_stands_for_one_intrinsic() {
        let opcodes = Id::all().filter_map(|id| id.get().placeholder);
        let mut opcodes: Vec<_> = opcodes
            .map(|(placeholder, _)| placeholder as usize)
            .collect();
        opcodes.sort_unstable();
        assert_eq!(opcodes, [0, 1]);
    }

    #[test]
    fn immediates_are_the_values_that_mean_something() {
        let intrinsic = |name: &str| Id::named(name).expect("the intrinsic exists").get();
        let values = |name: &str| intrinsic(name).immediates().collect::<Vec<_>>();
        assert_eq!(values("x86.pclmulqdq"), [0x00, 0x01, 0x10, 0x11]);
        assert_eq!(values("x86.sha1rnds4"), [0, 1, 2, 3]);
        assert_eq!(values("x86.aeskeygenassist").len(), 256);
        assert_eq!(values("x86.aesenc"), [0]);
        let listed = |name: &str| intrinsic(name).immediates_listed();
        assert_eq!(listed("x86.pclmulqdq"), "0x00, 0x01, 0x10, 0x11");
        assert_eq!(listed("x86.aeskeygenassist"), "0x00 to 0xff");
        assert_eq!(listed("x86.aesenc"), "");
    }
}
