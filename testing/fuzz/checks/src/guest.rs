//! [`Guest`]: a module, and calls of it.

mod looks;
mod loops;

use crate::random::Random;
use crate::value::{Ref, Val};
use arbitrary::Unstructured;
use pirn_format::metadata::{ExportItem, Metadata};
use pirn_runtime::{ExternType, FuncType, Module, ValType};
use std::fmt::Write;
use wasm_smith::Config;

/// A module, and calls of it.
#[derive(Debug)]
pub struct Guest {
    /// The module.
    pub wasm: Vec<u8>,
    /// Seed that determines the calls.
    pub seed: u64,
    /// Features in use that some engines lack.
    pub uses: Uses,
    /// Whether it consists of loops, small functions and branch tables.
    pub has_loops: bool,
}

/// Features that a guest may use and that some engines lack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uses {
    /// Exceptions.
    pub exceptions: bool,
    /// Structs, arrays and typed references.
    pub objects: bool,
    /// Shared memories and atomic operators.
    pub threads: bool,
    /// Relaxed SIMD operators, with deterministic results.
    pub relaxed: bool,
}

impl Uses {
    /// Whether every engine supports all of its features.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// A call of an exported function.
#[derive(Debug)]
pub struct Call {
    /// Name of the export.
    pub name: String,
    /// Arguments.
    pub params: Vec<Val>,
    /// Result types.
    pub results: Vec<ValType>,
    /// Whether the function is a host function that the module exports again. In a call of it, some
    /// engines do not show the host function the guest's memory.
    pub is_host: bool,
}

/// The exports of a module, and the calls that are made.
#[derive(Debug)]
pub struct Plan {
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// The exported memories.
    pub memories: Vec<String>,
    /// The name of memory 0, which host functions see.
    pub memory: Option<String>,
    /// Whether the start function is a host function.
    pub starts_host: bool,
    /// The exported globals.
    pub globals: Vec<String>,
    /// Number of calls at the end that only read the state.
    pub looks: usize,
}

impl Plan {
    /// The memory that host functions see during the start function. wasmi shows none to a host
    /// function that is itself the start function.
    #[must_use]
    pub fn memory_seen_at_start(&self) -> Option<String> {
        self.memory.clone().filter(|_| !self.starts_host)
    }

    /// The memory that host functions see in a call.
    #[must_use]
    pub fn memory_seen_by(&self, call: &Call) -> Option<String> {
        self.memory.clone().filter(|_| !call.is_host)
    }
}

/// Most memories of a guest.
pub(crate) const MEMORIES: usize = 3;

/// Most elements of a table.
const ELEMENTS: u32 = 200;

/// Limit of loop iterations and calls, after which a guest ends.
const STEPS: u32 = 1000;

use ValType::{F32, F64, I32, I64, V128};

/// Host functions that guests may import, by their index.
pub const FUNCS: [(&[ValType], &[ValType]); 11] = [
    (&[], &[]),
    (&[I32], &[I32]),
    (&[I64, I32], &[I64]),
    (&[F32, F64], &[F64]),
    (&[F64], &[F32]),
    (&[V128], &[V128]),
    (&[V128, I64, F32], &[]),
    (
        &[I32, I64, F32, F64, V128, I32, I64, I32, I64, I32, F64],
        &[I32, I64, F32, F64, V128, I64],
    ),
    (&[ValType::EXTERNREF], &[ValType::EXTERNREF, I32]),
    (&[ValType::FUNCREF, I32], &[I32]),
    (&[], &[ValType::FUNCREF, ValType::EXTERNREF]),
];

/// Immutable globals that guests may import, by their index.
pub const GLOBALS: [Val; 7] = [
    Val::I32(0x8000_0000),
    Val::I64(65_536),
    Val::F32(0x4f00_0000),
    Val::F64(0x41e0 << 48),
    Val::V128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
    Val::Func(false),
    Val::Extern(Ref::Null),
];

/// The type of a value.
#[must_use]
pub fn type_of(val: Val) -> ValType {
    match val {
        Val::I32(_) => I32,
        Val::I64(_) => I64,
        Val::F32(_) => F32,
        Val::F64(_) => F64,
        Val::V128(_) => V128,
        Val::Func(_) => ValType::FUNCREF,
        Val::Extern(_) => ValType::EXTERNREF,
        Val::Any(_) => ValType::ANYREF,
        Val::Exn(_) => ValType::EXNREF,
    }
}

/// A module that imports all of these functions and globals.
fn imports() -> Vec<u8> {
    let mut text = String::from("(module");
    for (index, (params, results)) in FUNCS.iter().enumerate() {
        let list = |kind: &str, types: &[ValType]| match types {
            [] => String::new(),
            types => {
                let names: Vec<_> = types.iter().map(ToString::to_string).collect();
                format!("({kind} {})", names.join(" "))
            }
        };
        let (params, results) = (list("param", params), list("result", results));
        let _ = write!(
            text,
            "(import \"host\" \"f{index}\" (func {params} {results}))"
        );
    }
    for (index, val) in GLOBALS.iter().enumerate() {
        let _ = write!(
            text,
            "(import \"host\" \"g{index}\" (global {}))",
            type_of(*val)
        );
    }
    text.push(')');
    pirn_compiler::parse_text(text.as_bytes())
        .expect("the text is well-formed")
        .into_owned()
}

/// The configuration of generated modules: only features that the compiler supports. Half of the
/// modules use no feature that some engines lack.
pub(crate) fn config(random: &mut Random) -> Config {
    let memory_bytes = [1 << 16, 1 << 18, 1 << 22][random.below(3)];
    let rich = random.once_in(2);
    Config {
        available_imports: Some(imports()),
        compact_imports_enabled: false,
        exceptions_enabled: rich && random.once_in(2),
        gc_enabled: rich && random.once_in(2),
        memory64_enabled: random.once_in(4),
        relaxed_simd_enabled: rich && random.once_in(2),
        tail_call_enabled: random.once_in(2),
        threads_enabled: rich && random.once_in(2),
        // Without a maximum, engines allow different growth.
        memory_max_size_required: true,
        table_max_size_required: true,
        max_memory32_bytes: memory_bytes,
        max_memory64_bytes: memory_bytes.into(),
        max_table_elements: ELEMENTS.into(),
        max_tables: 4,
        custom_page_sizes_enabled: random.once_in(3),
        max_memories: if random.once_in(3) { MEMORIES } else { 1 },
        max_funcs: 12,
        min_funcs: 1,
        min_exports: 1,
        min_types: 3,
        max_types: 20,
        max_instructions: [30, 100, 400][random.below(3)],
        min_uleb_size: if random.once_in(4) { 5 } else { 1 },
        generate_custom_sections: random.once_in(4),
        // The NaN of an operator is not specified, and a guest could observe it.
        canonicalize_nans: true,
        allow_floats: !random.once_in(3),
        disallow_traps: random.once_in(2),
        // A table that is not exported is known to the compiler.
        export_everything: !random.once_in(3),
        ..Config::default()
    }
}

impl Guest {
    /// Makes a valid guest that ends. Also returns a generator of random numbers for other
    /// decisions.
    ///
    /// # Errors
    ///
    /// If there are too few bytes for a module.
    pub fn of(data: &[u8]) -> arbitrary::Result<(Self, Random)> {
        let mut bytes = Unstructured::new(data);
        let mut random = Random::new(bytes.arbitrary()?);
        let seed = random.any();
        if random.once_in(3) {
            let wasm = pirn_compiler::parse_text(loops::text(&mut random).as_bytes())
                .expect("the text is well-formed")
                .into_owned();
            let guest = Self {
                wasm,
                seed,
                uses: Uses::default(),
                has_loops: true,
            };
            return Ok((guest, random));
        }
        let config = config(&mut random);
        let uses = Uses {
            exceptions: config.exceptions_enabled,
            objects: config.gc_enabled,
            threads: config.threads_enabled,
            relaxed: config.relaxed_simd_enabled,
        };
        let mut module = wasm_smith::Module::new(config, &mut bytes)?;
        let ended = module.ensure_termination(STEPS);
        ended.expect("no generated function consists of raw bytes");
        let wasm =
            looks::with_looks(module.to_bytes()).expect("the generated module is well-formed");
        let guest = Self {
            wasm,
            seed,
            uses,
            has_loops: false,
        };
        Ok((guest, random))
    }

    /// The calls of the module, determined by the names and types of its exports.
    #[must_use]
    pub fn plan(&self, module: &Module, metadata: &Metadata) -> Plan {
        let mut random = Random::new(self.seed);
        let imported = metadata.imported_funcs();
        let mut plan = Plan {
            calls: vec![],
            memories: vec![],
            memory: None,
            starts_host: metadata.start.is_some_and(|start| start < imported),
            globals: vec![],
            looks: 0,
        };
        let (mut funcs, mut looks): (Vec<(&str, FuncType)>, Vec<Call>) = (vec![], vec![]);
        for (name, ty) in module.exports() {
            match ty {
                ExternType::Func(ty) if name.starts_with(looks::TABLE) => {
                    looks.extend((0..=ELEMENTS).filter_map(|at| Call::of(name, &ty, || at.into())));
                }
                ExternType::Func(ty) if name.starts_with(looks::MEMORY) => {
                    looks.extend(Call::of(name, &ty, || 0));
                }
                ExternType::Func(ty) => funcs.push((name, ty)),
                // A call reads the contents of a shared memory.
                ExternType::Memory(ty) if ty.shared => {}
                ExternType::Memory(_) => {
                    if metadata.export(name) == Some(ExportItem::Memory(0)) {
                        plan.memory = Some(name.to_owned());
                    }
                    plan.memories.push(name.to_owned());
                }
                ExternType::Global(_) => plan.globals.push(name.to_owned()),
                _ => {}
            }
        }
        let is_host = |name: &str| match metadata.export(name) {
            Some(ExportItem::Func(index)) => index < imported,
            _ => false,
        };
        let calls = if funcs.is_empty() {
            0
        } else {
            1 + random.below(10)
        };
        for _ in 0..calls {
            let (name, ty) = &funcs[random.below(funcs.len())];
            if let Some(mut call) = Call::of(name, ty, || random.bits()) {
                call.is_host = is_host(name);
                plan.calls.push(call);
            }
        }
        plan.looks = looks.len();
        plan.calls.extend(looks);
        plan
    }
}

impl Call {
    /// A call with arguments from a source of bits; `None` if the host cannot make an argument.
    fn of(name: &str, ty: &FuncType, mut bits: impl FnMut() -> u64) -> Option<Self> {
        let params = ty.params.iter().map(|ty| Val::of(*ty, &mut bits));
        Some(Self {
            name: name.to_owned(),
            params: params.collect::<Option<_>>()?,
            results: ty.results.clone(),
            is_host: false,
        })
    }
}
