//! [`Interfaces`]: the functions of WASI 0.2, as the WIT files describe them.

use std::path::Path;
use wit_parser::abi::{AbiVariant, FlatTypes, WasmSignature, WasmType};
use wit_parser::{Handle, Int, Resolve, SizeAlign, Type, TypeDefKind, TypeId, WorldId, WorldItem};

/// The guest's world. The host calls `call` with the number of a function and the words that
/// `guest.rs` describes. `take` gets what an HTTP handler gets, and returns the two handles.
const WORLD: &str = "package pirn:hostile;
    world guest {
      import canary: interface { break-a-bound: func(which: u32); }
      import wasi:cli/environment@0.2.12;
      import wasi:cli/exit@0.2.12;
      import wasi:cli/stdin@0.2.12;
      import wasi:cli/stdout@0.2.12;
      import wasi:cli/stderr@0.2.12;
      import wasi:cli/terminal-stdin@0.2.12;
      import wasi:cli/terminal-stdout@0.2.12;
      import wasi:cli/terminal-stderr@0.2.12;
      import wasi:io/error@0.2.12;
      import wasi:io/streams@0.2.12;
      import wasi:io/poll@0.2.12;
      import wasi:clocks/monotonic-clock@0.2.12;
      import wasi:clocks/wall-clock@0.2.12;
      import wasi:filesystem/types@0.2.12;
      import wasi:filesystem/preopens@0.2.12;
      import wasi:random/random@0.2.12;
      import wasi:random/insecure@0.2.12;
      import wasi:random/insecure-seed@0.2.12;
      import wasi:http/types@0.2.12;
      import wasi:http/outgoing-handler@0.2.12;
      import wasi:sockets/network@0.2.12;
      import wasi:sockets/instance-network@0.2.12;
      import wasi:sockets/tcp@0.2.12;
      import wasi:sockets/tcp-create-socket@0.2.12;
      import wasi:sockets/udp@0.2.12;
      import wasi:sockets/udp-create-socket@0.2.12;
      import wasi:sockets/ip-name-lookup@0.2.12;
      use wasi:http/types@0.2.12.{incoming-request, response-outparam};
      export call: func(function: u32, words: list<u64>) -> u64;
      export take: func(request: incoming-request, out: response-outparam) -> u64;
    }";

/// A function that the guest imports.
#[derive(Debug)]
pub(super) struct Function {
    /// The name of its interface.
    pub(super) interface: String,
    /// Its name in the core module.
    pub(super) name: String,
    pub(super) params: Vec<Type>,
    pub(super) result: Option<Type>,
    pub(super) signature: WasmSignature,
    /// The resource type whose handle the function drops.
    pub(super) drops: Option<TypeId>,
}

impl Function {
    /// The full name.
    pub(super) fn path(&self) -> String {
        format!("{}#{}", self.interface, self.name)
    }
}

/// All functions that the guest imports, and their types.
pub(super) struct Interfaces {
    pub(super) resolve: Resolve,
    pub(super) world: WorldId,
    pub(super) functions: Vec<Function>,
    sizes: SizeAlign,
}

/// The kind of a type, for those who make and read its values.
pub(super) enum Shape<'a> {
    /// A number, a character, an enum or flags.
    Number,
    String,
    List(Type),
    /// A handle of a resource type, and whether it is borrowed.
    Handle(TypeId, bool),
    /// The parts of a record or tuple.
    Parts(Vec<&'a Type>),
    /// The payloads of the cases.
    Cases(Vec<Option<&'a Type>>),
}

impl Interfaces {
    /// Reads the interfaces from the folder `wit` of the crate `wasip2`.
    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let mut resolve = Resolve {
            all_features: true,
            ..Resolve::default()
        };
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
        resolve.push_dir(folder).map_err(|error| wrong(&error))?;
        let package = resolve
            .push_str("hostile.wit", WORLD)
            .map_err(|error| wrong(&error))?;
        let world = resolve
            .select_world(&[package], Some("guest"))
            .map_err(|error| wrong(&error))?;
        let mut sizes = SizeAlign::default();
        sizes.fill(&resolve);
        let mut interfaces = Self {
            resolve,
            world,
            functions: vec![],
            sizes,
        };
        interfaces.functions = interfaces.imported();
        Ok(interfaces)
    }

    fn imported(&self) -> Vec<Function> {
        let mut functions = vec![];
        for (key, item) in &self.resolve.worlds[self.world].imports {
            let WorldItem::Interface { id, .. } = item else {
                continue;
            };
            let name = self.resolve.name_world_key(key);
            let interface = &self.resolve.interfaces[*id];
            for function in interface.functions.values() {
                functions.push(Function {
                    interface: name.clone(),
                    name: function.name.clone(),
                    params: function.params.iter().map(|param| param.ty).collect(),
                    result: function.result,
                    signature: self
                        .resolve
                        .wasm_signature(AbiVariant::GuestImport, function),
                    drops: None,
                });
            }
            for (resource, id) in &interface.types {
                if matches!(self.resolve.types[*id].kind, TypeDefKind::Resource) {
                    functions.push(Function {
                        interface: name.clone(),
                        name: format!("[resource-drop]{resource}"),
                        params: vec![],
                        result: None,
                        signature: WasmSignature {
                            params: vec![WasmType::I32],
                            results: vec![],
                            indirect_params: false,
                            retptr: false,
                        },
                        drops: Some(*id),
                    });
                }
            }
        }
        functions
    }

    /// The type that an alias stands for.
    fn root(&self, mut id: TypeId) -> TypeId {
        while let TypeDefKind::Type(Type::Id(next)) = self.resolve.types[id].kind {
            id = next;
        }
        id
    }

    pub(super) fn shape<'a>(&'a self, ty: &Type) -> Shape<'a> {
        let id = match ty {
            Type::String => return Shape::String,
            Type::Id(id) => self.root(*id),
            _ => return Shape::Number,
        };
        match &self.resolve.types[id].kind {
            TypeDefKind::Record(record) => {
                Shape::Parts(record.fields.iter().map(|field| &field.ty).collect())
            }
            TypeDefKind::Tuple(tuple) => Shape::Parts(tuple.types.iter().collect()),
            TypeDefKind::Handle(Handle::Own(id)) => Shape::Handle(self.root(*id), false),
            TypeDefKind::Handle(Handle::Borrow(id)) => Shape::Handle(self.root(*id), true),
            TypeDefKind::Variant(variant) => {
                Shape::Cases(variant.cases.iter().map(|case| case.ty.as_ref()).collect())
            }
            TypeDefKind::Option(ty) => Shape::Cases(vec![None, Some(ty)]),
            TypeDefKind::Result(result) => {
                Shape::Cases(vec![result.ok.as_ref(), result.err.as_ref()])
            }
            TypeDefKind::List(ty) => Shape::List(*ty),
            TypeDefKind::Type(Type::String) => Shape::String,
            _ => Shape::Number,
        }
    }

    /// Number of core values of a type.
    pub(super) fn words(&self, ty: &Type) -> usize {
        let mut types = [WasmType::I32; 64];
        let mut flat = FlatTypes::new(&mut types);
        self.resolve.push_flat(ty, &mut flat);
        flat.to_vec().len()
    }

    /// Bytes of a type in memory.
    pub(super) fn bytes(&self, ty: &Type) -> usize {
        self.sizes.size(ty).size_wasm32()
    }

    /// The owned handles of a value in memory, with their resource types.
    pub(super) fn handles(&self, memory: &[u8], ty: &Type, at: usize) -> Vec<(TypeId, u32)> {
        let mut found = vec![];
        self.collect(memory, ty, at, &mut found);
        found
    }

    fn collect(&self, memory: &[u8], ty: &Type, at: usize, found: &mut Vec<(TypeId, u32)>) {
        let word = |at: usize| {
            let bytes = memory.get(at..at.checked_add(4)?)?;
            bytes.try_into().ok().map(u32::from_le_bytes)
        };
        match self.shape(ty) {
            Shape::Number | Shape::String => {}
            Shape::Handle(resource, _) => found.extend(word(at).map(|handle| (resource, handle))),
            Shape::Parts(parts) => {
                for (offset, part) in self.sizes.field_offsets(parts) {
                    self.collect(memory, part, at + offset.size_wasm32(), found);
                }
            }
            Shape::Cases(cases) => {
                let offset = self.sizes.payload_offset(Int::U8, cases.iter().copied());
                let case = memory.get(at).map(|case| usize::from(*case));
                if let Some(Some(payload)) = case.and_then(|case| cases.get(case)) {
                    self.collect(memory, payload, at + offset.size_wasm32(), found);
                }
            }
            Shape::List(element) => {
                let (start, len) = (word(at).unwrap_or(0), word(at + 4).unwrap_or(0));
                let bytes = self.bytes(&element).max(1);
                for index in 0..(len as usize).min(64) {
                    self.collect(memory, &element, start as usize + index * bytes, found);
                }
            }
        }
    }
}
