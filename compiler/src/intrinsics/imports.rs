//! [`Imports`]: a module's imports of `hw` and of known functions, which become functions that the
//! module defines.
//!
//! The host's imports come first, then the provided functions, each in their original order. So
//! every other function keeps the index that it has in the guest's file:
//!
//! ```text
//! in the file      host a │ hw x │ host b │ hw y │ defined ...
//! in the compiler  host a │ host b │ hw x │ hw y │ defined ...
//! ```

use super::known::Known;
use super::{Id, Intrinsic, MODULE};
use crate::error::CompileError;
use pirn_format::text;
use pirn_format::types::FuncType;

/// A function that the compiler provides in place of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provided {
    /// An import of `hw`.
    Intrinsic(Id),
    /// An import that an operator computes.
    Known(Known),
}

impl Provided {
    /// Module and name of the import.
    pub(crate) fn full_name(self) -> String {
        match self {
            Self::Intrinsic(id) => format!("{MODULE}.{}", id.get().name),
            Self::Known(known) => known.full_name(),
        }
    }
}

/// The imports that the compiler provides.
#[derive(Debug, Default)]
pub(crate) struct Imports {
    /// Index of the first provided function: the number of imports from the host.
    first: u32,
    /// The provided functions, in order.
    provided: Vec<Provided>,
    /// The compiler's index of each imported function, by the index in the file. Empty if no index
    /// changes.
    moved: Vec<u32>,
}

impl Imports {
    /// Builds the mapping from the imported functions in file order: a provided function, or `None`
    /// for a host import.
    pub(crate) fn new(imported: &[Option<Provided>]) -> Self {
        let provided: Vec<Provided> = imported.iter().copied().flatten().collect();
        if provided.is_empty() {
            return Self::default();
        }
        let first = (imported.len() - provided.len()) as u32;
        let (mut host, mut own) = (0, first);
        let moved = imported.iter().map(|import| {
            let next = match import {
                None => &mut host,
                Some(_) => &mut own,
            };
            *next += 1;
            *next - 1
        });
        Self {
            first,
            moved: moved.collect(),
            provided,
        }
    }

    /// The number of provided functions.
    pub(crate) fn len(&self) -> u32 {
        self.provided.len() as u32
    }

    /// The compiler's index of a function, from its index in the file.
    pub(crate) fn index(&self, in_file: u32) -> u32 {
        let moved = self.moved.get(in_file as usize);
        moved.copied().unwrap_or(in_file)
    }

    /// The provided function with this index; `None` for any other function.
    pub(crate) fn provided(&self, index: u32) -> Option<Provided> {
        let at = index.checked_sub(self.first)?;
        self.provided.get(at as usize).copied()
    }

    /// The index and the function of each import that the compiler provides.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Provided)> {
        (self.first..).zip(self.provided.iter().copied())
    }

    /// Refuses references to intrinsics that cannot be called through a reference.
    pub(crate) fn check_address_taken(&self, address_taken: &[u32]) -> Result<(), CompileError> {
        let mut address_taken =
            address_taken
                .iter()
                .filter_map(|index| match self.provided(*index)? {
                    Provided::Intrinsic(id) => Some(id),
                    Provided::Known(_) => None,
                });
        match address_taken.find(|id| id.get().immediate.is_some()) {
            Some(id) => refuse(
                id.get().name,
                "it takes an immediate, which must be a constant in each call, so it can be \
                 neither exported nor referred to; export a function that calls it"
                    .to_owned(),
            ),
            None => Ok(()),
        }
    }
}

/// The intrinsic of an imported name. The declared type must match; `declared` is the type, or the
/// kind of import if it is not a function.
pub(crate) fn find(name: &str, declared: Result<&FuncType, &str>) -> Result<Id, CompileError> {
    let Some(id) = Id::named(name) else {
        let near = match nearest(name) {
            Some(near) => format!("; the nearest is {near}"),
            None => String::new(),
        };
        return refuse(
            name,
            format!(
                "{MODULE} has no intrinsic of this name{near}; docs/reference/intrinsics.md lists \
                 all"
            ),
        );
    };
    let ty = id.get().ty();
    match declared {
        Ok(declared) if *declared == ty => Ok(id),
        Ok(declared) => refuse(
            name,
            format!("it is declared as {declared}, its type is {ty}; declare it with that type"),
        ),
        Err(what) => refuse(
            name,
            format!("it is imported as {what}, it is a function {ty}; import it as that function"),
        ),
    }
}

/// The longest name for which a similar name is searched.
const NEAR_BYTES_MAX: usize = 64;

/// The intrinsic with the most similar name: at most a third of the letters may differ.
fn nearest(name: &str) -> Option<&'static str> {
    if name.len() > NEAR_BYTES_MAX {
        return None;
    }
    let names = Id::all().map(|id| id.get().name);
    let (changes, near) = names
        .map(|near| (strsim::levenshtein(name, near), near))
        .min()?;
    (changes * 3 <= name.len()).then_some(near)
}

/// Checks the immediate of a call. `constant` is the value of the last operand, if it is a
/// constant. `func` describes the function for the error message.
pub(crate) fn immediate(
    intrinsic: &Intrinsic,
    constant: Option<u32>,
    offset: u32,
    func: impl FnOnce() -> String,
) -> Result<u8, CompileError> {
    let mut values = intrinsic.immediates();
    if let Some(value) = values.find(|value| Some(u32::from(*value)) == constant) {
        return Ok(value);
    }
    let at = format!("in the call at offset {offset:#x}, function {}", func());
    let wanted = intrinsic.immediates_listed();
    let message = match constant {
        None => format!(
            "its immediate is not constant {at}; write a switch over {wanted}, with a call with \
             one constant in each case"
        ),
        Some(other) => format!("its immediate is {other:#04x} {at}; use {wanted}"),
    };
    refuse(intrinsic.name, message)
}

fn refuse<T>(name: &str, message: String) -> Result<T, CompileError> {
    Err(CompileError::Intrinsic {
        name: match name {
            "" => "\"\"".to_owned(),
            name => text::plain(name).to_string(),
        },
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_what_few_letters_differ_in() {
        assert_eq!(nearest("x86.aesenk"), Some("x86.aesenc"));
        assert_eq!(nearest("x86.crc32_64"), Some("x86.crc32_u64"));
        assert_eq!(nearest("aarch64.sha256h3"), Some("aarch64.sha256h"));
        assert_eq!(nearest("x86.hcf"), None);
        assert_eq!(nearest(""), None);
        assert_eq!(nearest(&"x86.aesenc".repeat(1000)), None);
    }

    #[test]
    fn the_hosts_come_first_and_the_rest_stays() {
        let [aes, sha] = ["x86.aesenc", "x86.sha1msg1"]
            .map(|name| Provided::Intrinsic(Id::named(name).expect("the intrinsic exists")));
        let sqrt = Provided::Known(Known::Sqrt);
        let imports = Imports::new(&[None, Some(aes), None, Some(sha), Some(sqrt)]);
        let moved: Vec<_> = (0..7).map(|index| imports.index(index)).collect();
        assert_eq!(moved, [0, 2, 1, 3, 4, 5, 6]);
        let found: Vec<_> = (0..6).map(|index| imports.provided(index)).collect();
        assert_eq!(found, [None, None, Some(aes), Some(sha), Some(sqrt), None]);
        assert_eq!(
            imports.iter().collect::<Vec<_>>(),
            [(2, aes), (3, sha), (4, sqrt)]
        );
        let none = Imports::new(&[None, None]);
        assert_eq!((none.len(), none.index(1), none.provided(0)), (0, 1, None));
    }
}
