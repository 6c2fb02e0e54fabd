//! The guest: a core module that calls any function of WASI 0.2 with the words that the host gives.
//!
//! The words are the mode of the allocator, the number of calls, and the core parameters. They lie
//! at [`WORDS_AT`], so that a parameter can be the address of other words.

use super::bounds::HOST_BYTES_MAX;
use super::interfaces::{Function, Interfaces};
use super::world::{self, Host};
use pirn_compiler::Options;
use pirn_component::{Component, Linker, Own, Prepared, TypedFunc};
use pirn_runtime::{Module, Region};
use pirn_wasi2::http::{IncomingRequest, ResponseOutparam};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::abi::WasmType;

/// Pages of the guest's memory. The largest number of bytes that a call can ask for has room.
const PAGES: usize = 1100;
/// Where functions write results that are no core value.
pub(super) const RESULT_AT: u32 = 1024;
/// Address of texts: paths, names of fields, and the like. Each has [`TEXT_BYTES`].
pub(super) const TEXTS_AT: u32 = 8192;
/// Bytes from one text to the next.
pub(super) const TEXT_BYTES: u32 = 64;
/// Address of words with small numbers.
pub(super) const SMALL_AT: u32 = 32 << 10;
/// Where the allocator begins.
const HEAP_AT: u32 = 128 << 10;
/// Address of the words of a call.
pub(super) const WORDS_AT: u32 = HEAP_AT;
/// Bytes of the memory.
pub(super) const MEMORY_BYTES: u32 = (PAGES << 16) as u32;
/// Words before the parameters.
pub(super) const HEAD_WORDS: usize = 2;

/// What the allocator does during a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allocator {
    Works,
    /// All allocations are at the words of the call.
    Overlaps,
    IsOutside,
    IsUnaligned,
    Traps,
    Loops,
}

/// All allocators. The first one works.
pub(super) const ALLOCATORS: [Allocator; 6] = [
    Allocator::Works,
    Allocator::Overlaps,
    Allocator::IsOutside,
    Allocator::IsUnaligned,
    Allocator::Traps,
    Allocator::Loops,
];

/// Texts that the guest passes.
pub(super) const TEXTS: [&str; 24] = [
    "file",
    "folder",
    "folder/10",
    "link",
    "loop",
    "up",
    "up/secret",
    "..",
    "../secret",
    "/etc/passwd",
    ".",
    "",
    "new",
    "folder/new",
    "missing/new",
    "a\u{0}b",
    "\u{fffd}",
    "trailing/",
    "content-length",
    "host",
    "127.0.0.1",
    "localhost:80",
    "/path?query",
    "x: y\r\nz: w",
];

/// The function with the number of a function and the words of a call.
pub(super) type Call = TypedFunc<(u32, Vec<u64>), u64>;
/// The function that takes the resources of a request, and returns their handles.
pub(super) type Take = TypedFunc<(Own<IncomingRequest>, Own<ResponseOutparam>), u64>;

/// The guest, prepared in a region of one slot.
pub(super) struct PreparedGuest {
    pub(super) interfaces: Interfaces,
    pub(super) region: Region,
    pub(super) prepared: Prepared<Host>,
    pub(super) call: Call,
    pub(super) take: Take,
}

/// A core module's name of a type.
fn core(ty: &WasmType) -> &'static str {
    match ty {
        WasmType::I64 | WasmType::PointerOrI64 => "i64",
        WasmType::F32 => "f32",
        WasmType::F64 => "f64",
        _ => "i32",
    }
}

/// The import of a function, and the function that loads its parameters and calls it.
fn function(number: usize, function: &Function, imports: &mut String, bodies: &mut String) {
    let names =
        |types: &[WasmType]| -> String { types.iter().flat_map(|ty| [core(ty), " "]).collect() };
    let (params, results) = (&function.signature.params, &function.signature.results);
    // Writing to a string cannot fail.
    let _ = write!(
        imports,
        "(import {:?} {:?} (func $f{number} (param {}) (result {})))",
        function.interface,
        function.name,
        names(params),
        names(results)
    );
    let mut loads = String::new();
    for (at, ty) in params.iter().enumerate() {
        let word = format!("(i64.load offset={} (local.get 0))", (HEAD_WORDS + at) * 8);
        loads += &match core(ty) {
            "i64" => word,
            "f32" => format!("(f32.reinterpret_i32 (i32.wrap_i64 {word}))"),
            "f64" => format!("(f64.reinterpret_i64 {word})"),
            _ => format!("(i32.wrap_i64 {word})"),
        };
    }
    let call = format!("(call $f{number} {loads})");
    let called = match results.first().map(core) {
        None => format!("{call} (i64.const 0)"),
        Some("i64") => call,
        Some("f32") => format!("(i64.extend_i32_u (i32.reinterpret_f32 {call}))"),
        Some("f64") => format!("(i64.reinterpret_f64 {call})"),
        Some(_) => format!("(i64.extend_i32_u {call})"),
    };
    let _ = write!(bodies, "(func $w{number} (type $w) {called})");
}

/// The core module.
fn text(functions: &[Function]) -> String {
    let (mut imports, mut bodies, mut elements) = (String::new(), String::new(), String::new());
    for (number, one) in functions.iter().enumerate() {
        function(number, one, &mut imports, &mut bodies);
        let _ = write!(elements, "$w{number} ");
    }
    let mut data = String::new();
    for (at, text) in (0..).zip(TEXTS) {
        let bytes: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
        let _ = write!(
            data,
            "(data (i32.const {}) \"{bytes}\")",
            TEXTS_AT + at * TEXT_BYTES
        );
    }
    let small: String = (0..512_u32)
        .map(|at| format!("\\{:02x}\\00\\00\\00", at % 7))
        .collect();
    let _ = write!(data, "(data (i32.const {SMALL_AT}) \"{small}\")");
    format!(
        r#"(module
        (type $w (func (param i32) (result i64)))
        {imports}
        (memory (export "memory") {PAGES})
        (table funcref (elem {elements}))
        (global $mode (mut i32) (i32.const 0))
        (global $next (mut i32) (i32.const {HEAP_AT}))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
          (if (i32.eq (global.get $mode) (i32.const 1)) (then (return (i32.const {HEAP_AT}))))
          (if (i32.eq (global.get $mode) (i32.const 2)) (then (return (i32.const -8))))
          (if (i32.eq (global.get $mode) (i32.const 4)) (then unreachable))
          (if (i32.eq (global.get $mode) (i32.const 5)) (then (loop $again (br $again))))
          (local.set $at (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
          (global.set $next (i32.add (local.get $at) (local.get 3)))
          (if (i32.eq (global.get $mode) (i32.const 3))
            (then (return (i32.add (local.get $at) (i32.const 1)))))
          (local.get $at))
        {bodies}
        (func (export "call") (param $function i32) (param $at i32) (param i32) (result i64)
          (local $times i64) (local $result i64)
          (global.set $mode (i32.wrap_i64 (i64.load (local.get $at))))
          (local.set $times (i64.load offset=8 (local.get $at)))
          (loop $again
            (global.set $next (i32.const {}))
            (local.set $result
              (call_indirect (type $w) (local.get $at) (local.get $function)))
            (local.set $times (i64.sub (local.get $times) (i64.const 1)))
            (br_if $again (i64.gt_s (local.get $times) (i64.const 0))))
          (global.set $mode (i32.const 0))
          (global.set $next (i32.const {HEAP_AT}))
          (local.get $result))
        (func (export "take") (param i32 i32) (result i64)
          (i64.or (i64.extend_i32_u (local.get 0))
            (i64.shl (i64.extend_i32_u (local.get 1)) (i64.const 32))))
        {data})"#,
        HEAP_AT + (64 << 10)
    )
}

impl PreparedGuest {
    fn new(wit: &Path) -> Result<Self, String> {
        let interfaces = Interfaces::read(wit)?;
        let text = text(&interfaces.functions);
        let wrong = |error: &dyn std::fmt::Display| format!("the guest is not made: {error}");
        let wasm = pirn_compiler::parse_text(text.as_bytes()).map_err(|error| wrong(&error))?;
        let mut wasm = wasm.into_owned();
        let (resolve, world) = (&interfaces.resolve, interfaces.world);
        embed_component_metadata(&mut wasm, resolve, world, StringEncoding::UTF8)
            .map_err(|error| wrong(&error))?;
        let so = pirn_compiler::compile(&wasm, &Options::default());
        let module = Module::from_bytes(&so.map_err(|error| wrong(&error))?);
        let module = module.map_err(|error| wrong(&error))?;
        let component = Component::new(&module).map_err(|error| wrong(&error))?;
        let region = Region::builder()
            .slots(1)
            .memory_bytes_max(MEMORY_BYTES as usize)
            .build()
            .map_err(|error| wrong(&error))?;
        let mut linker = Linker::<Host>::new();
        linker.host_bytes_max(HOST_BYTES_MAX);
        pirn_wasi2::link(&mut linker).map_err(|error| wrong(&error))?;
        pirn_wasi2::http::link(&mut linker).map_err(|error| wrong(&error))?;
        world::link_canary(&mut linker).map_err(|error| wrong(&error))?;
        let prepared = linker.prepare(&region, &component);
        let prepared = prepared.map_err(|error| wrong(&error))?;
        let call = prepared.typed("call").map_err(|error| wrong(&error))?;
        let take = prepared.typed("take").map_err(|error| wrong(&error))?;
        Ok(Self {
            interfaces,
            region,
            prepared,
            call,
            take,
        })
    }
}

/// The guest, which is made once in a process, from the first folder that is given.
pub(super) fn prepared_guest(wit: &Path) -> Result<&'static PreparedGuest, String> {
    static GUEST: OnceLock<Result<PreparedGuest, String>> = OnceLock::new();
    let guest = GUEST.get_or_init(|| PreparedGuest::new(wit));
    guest.as_ref().map_err(Clone::clone)
}
