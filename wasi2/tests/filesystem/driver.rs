//! A guest that passes calls on to `wasi:filesystem`, and a temporary directory for it.

use crate::common::wit;
use pirn_compiler::{Options, compile, parse_text};
use pirn_component::{CallError, Component, Instance, Linker, Prepared, Resource, Value};
use pirn_runtime::{Module, Region};
use pirn_wasi2::{Dir, Wasi, WasiBuilder, ambient_authority};
use std::fmt::Write;
use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::abi::{AbiVariant, WasmType};
use wit_parser::{Function, Resolve};

const TYPES: &str = "wasi:filesystem/types@0.2.12";
const STREAMS: &str = "wasi:io/streams@0.2.12";

/// The import that an export passes its calls on to, and the resource type of its first parameter.
fn import(export: &str) -> (&'static str, String, &'static str) {
    match export {
        "get-directories" => ("wasi:filesystem/preopens@0.2.12", export.to_owned(), ""),
        "filesystem-error-code" => (TYPES, export.to_owned(), "error"),
        "read-directory-entry" => {
            let name = "[method]directory-entry-stream.read-directory-entry";
            (TYPES, name.to_owned(), "entries")
        }
        _ => match export.split_once('-') {
            Some(("input", name)) => (STREAMS, format!("[method]input-stream.{name}"), "input"),
            Some(("output", name)) => (STREAMS, format!("[method]output-stream.{name}"), "output"),
            _ => (TYPES, format!("[method]descriptor.{export}"), "descriptor"),
        },
    }
}

/// Index of the core parameter that is a second descriptor.
fn second(export: &str) -> Option<usize> {
    match export {
        "is-same-object" => Some(1),
        "rename-at" => Some(3),
        "link-at" => Some(4),
        _ => None,
    }
}

fn names(types: &[WasmType]) -> String {
    let name = |ty: &WasmType| match ty {
        WasmType::I64 | WasmType::PointerOrI64 => " i64",
        _ => " i32",
    };
    types.iter().map(name).collect()
}

/// The import of a function, and the export that calls it and drops what it was lent.
fn pass_on(resolve: &Resolve, func: &Function, imports: &mut String, exports: &mut String) {
    let to = resolve.wasm_signature(AbiVariant::GuestImport, func);
    let of = resolve.wasm_signature(AbiVariant::GuestExport, func);
    let (interface, import, resource) = import(&func.name);
    let export = &func.name;
    let [params, results] = [names(&to.params), names(&to.results)];
    let _ = writeln!(
        imports,
        "(import {interface:?} {import:?} (func ${export} (param{params}) (result{results})))"
    );
    let [params, results] = [names(&of.params), names(&of.results)];
    let _ = writeln!(
        exports,
        "(func (export \"pirn:tests/files#{export}\") (param{params}) (result{results})"
    );
    for n in 0..of.params.len() {
        let _ = write!(exports, " local.get {n}");
    }
    if to.retptr {
        exports.push_str(" i32.const 64");
    }
    let _ = writeln!(exports, " call ${export}");
    if !resource.is_empty() {
        let _ = writeln!(exports, " (call $drop-{resource} (local.get 0))");
    }
    if let Some(n) = second(export) {
        let _ = writeln!(exports, " (call $drop-descriptor (local.get {n}))");
    }
    if to.retptr {
        exports.push_str(" i32.const 64");
    }
    exports.push_str(" (global.set $top (i32.const 4096)))\n");
}

/// The component `files-guest`.
fn component() -> Vec<u8> {
    let mut resolve = wit::wasi();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wit");
    let (package, _) = resolve.push_dir(folder).expect("it is well-formed");
    let world = resolve.select_world(&[package], Some("files-guest"));
    let world = world.expect("the world");
    let (mut imports, mut exports) = (String::new(), String::new());
    for (interface, name, short) in [
        (TYPES, "descriptor", "descriptor"),
        (TYPES, "directory-entry-stream", "entries"),
        (STREAMS, "input-stream", "input"),
        (STREAMS, "output-stream", "output"),
        ("wasi:io/error@0.2.12", "error", "error"),
    ] {
        let _ = writeln!(
            imports,
            "(import {interface:?} \"[resource-drop]{name}\" (func $drop-{short} (param i32)))"
        );
    }
    let files = resolve.packages[package].interfaces["files"];
    for func in resolve.interfaces[files].functions.values() {
        pass_on(&resolve, func, &mut imports, &mut exports);
    }
    let wat = format!(
        r#"(module {imports}
            (memory (export "memory") 600)
            (global $top (mut i32) (i32.const 4096))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local i32)
                (local.set 4 (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
                (global.set $top (i32.add (local.get 4) (local.get 3)))
                (local.get 4))
            {exports})"#
    );
    let mut core = parse_text(wat.as_bytes())
        .expect("it is well-formed")
        .to_vec();
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).expect("it fits");
    let encoder = ComponentEncoder::default();
    let encoder = encoder.module(&core).expect("it is a module");
    encoder.validate(true).encode().expect("it is a component")
}

/// An instance of the guest.
pub(crate) struct Guest {
    pub(crate) instance: Instance<Wasi>,
    runtime: Runtime,
}

/// The guest, compiled and linked.
fn prepared() -> &'static Prepared<Wasi> {
    static PREPARED: OnceLock<Prepared<Wasi>> = OnceLock::new();
    PREPARED.get_or_init(|| {
        let so = compile(&component(), &Options::default()).expect("it compiles");
        let module = Module::from_bytes(&so).expect("it opens");
        let component = Component::new(&module).expect("it is a component");
        let mut linker = Linker::new();
        pirn_wasi2::link(&mut linker).expect("nothing is defined twice");
        let region = Region::builder().slots(64).memory_bytes_max(64 << 20);
        let region = region.build().expect("a region");
        linker.prepare(&region, &component).expect("it links")
    })
}

/// Flags.
pub(crate) fn flags(names: &[&str]) -> Value {
    Value::Flags(names.iter().map(|&name| name.to_owned()).collect())
}

pub(crate) fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

pub(crate) fn bytes(bytes: &[u8]) -> Value {
    Value::List(bytes.iter().map(|&byte| Value::U8(byte)).collect())
}

/// The bytes of a list.
pub(crate) fn to_bytes(list: &Value) -> Vec<u8> {
    let Value::List(list) = list else {
        panic!("{list:?} is no list")
    };
    let byte = |value: &Value| match value {
        Value::U8(byte) => *byte,
        other => panic!("{other:?} is no byte"),
    };
    list.iter().map(byte).collect()
}

/// An operation's result, or its `error-code`.
pub(crate) type Answer<R = Option<Value>> = Result<R, String>;

impl Guest {
    pub(crate) fn new(wasi: Wasi) -> Self {
        let instance = prepared().instantiate(wasi).expect("a slot is free");
        let runtime = tokio::runtime::Builder::new_current_thread();
        Self {
            instance,
            runtime: { runtime }.enable_all().build().expect("a runtime"),
        }
    }

    /// Calls a function.
    pub(crate) fn call(&mut self, name: &str, params: &[Value]) -> Result<Value, CallError> {
        let func = prepared().func(&format!("pirn:tests/files#{name}"));
        let func = func.expect("it is exported");
        let called = self
            .runtime
            .block_on(self.instance.call_async(&func, params));
        Ok(called?.expect("all functions have results"))
    }

    /// Calls a function whose result is a `result`.
    pub(crate) fn ask(&mut self, name: &str, params: &[Value]) -> Answer {
        let answered = self.call(name, params).expect("the call ends well");
        match answered {
            Value::Result(Ok(value)) => Ok(value.map(|value| *value)),
            Value::Result(Err(Some(code))) => match *code {
                Value::Enum(code) | Value::Variant(code, None) => Err(code),
                other => Err(format!("{other:?}")),
            },
            other => panic!("{other:?} is no result"),
        }
    }

    /// Calls a function of a descriptor.
    pub(crate) fn on(&mut self, this: Resource, name: &str, params: &[Value]) -> Answer {
        let this = [Value::Borrow(this)];
        self.ask(name, &[&this, params].concat())
    }

    /// Calls a function that makes a resource.
    pub(crate) fn make(
        &mut self,
        this: Resource,
        name: &str,
        params: &[Value],
    ) -> Answer<Resource> {
        match self.on(this, name, params)? {
            Some(Value::Own(made)) => Ok(made),
            other => panic!("{other:?} is no handle"),
        }
    }

    pub(crate) fn open(
        &mut self,
        this: Resource,
        path: &str,
        how: &[&str],
        rights: &[&str],
    ) -> Answer<Resource> {
        let params = [
            flags(&["symlink-follow"]),
            text(path),
            flags(how),
            flags(rights),
        ];
        self.make(this, "open-at", &params)
    }

    /// The directories that the guest is given.
    pub(crate) fn directories(&mut self) -> Vec<(Resource, String)> {
        let Ok(Value::List(all)) = self.call("get-directories", &[]) else {
            panic!("it is a list")
        };
        let one = |value| match value {
            Value::Tuple(parts) => match <[Value; 2]>::try_from(parts) {
                Ok([Value::Own(dir), Value::String(path)]) => (dir, path),
                other => panic!("{other:?} is no directory"),
            },
            other => panic!("{other:?} is no tuple"),
        };
        all.into_iter().map(one).collect()
    }

    /// Drops a resource.
    pub(crate) fn drop(&mut self, resource: Resource) -> Result<(), String> {
        let table = self.instance.data_mut().table();
        table
            .remove(resource.rep())
            .map(drop)
            .map_err(|error| error.to_string())
    }
}

/// A directory whose subdirectory `in` is the guest's. `out` lies beside it.
pub(crate) struct Place {
    pub(crate) host: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let host = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(host.path().join("in")).expect("a directory");
        std::fs::write(host.path().join("out"), "secret").expect("a file");
        Self { host }
    }

    /// A path of the host in the guest's directory.
    pub(crate) fn path(&self, path: &str) -> std::path::PathBuf {
        self.host.path().join("in").join(path)
    }

    pub(crate) fn dir(&self) -> Dir {
        Dir::open_ambient_dir(self.path(""), ambient_authority()).expect("a directory")
    }

    /// A guest that has the directory, and the descriptor.
    pub(crate) fn guest(&self) -> (Guest, Resource) {
        self.guest_with(WasiBuilder::new().preopened_dir(self.dir(), "/"))
    }

    pub(crate) fn guest_with(&self, builder: WasiBuilder) -> (Guest, Resource) {
        let mut guest = Guest::new(builder.build());
        let (root, _) = guest.directories()[0];
        (guest, root)
    }
}
