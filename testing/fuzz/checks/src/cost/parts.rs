//! [`Parts`]: the sections of a module for a [`Shape`].

use super::bodies::body;
use super::shapes::{KINDS, Shape};
use super::subject::Subject;
use super::types::{BOTH, EMPTY, MAKES, TAKES, structure, values};
use crate::random::Random;
use std::borrow::Cow;
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataSection, ElementSection, Elements, EntityType,
    ExportKind, ExportSection, Function, FunctionSection, GlobalSection, GlobalType, ImportSection,
    Instruction, MemorySection, MemoryType, Module, NameMap, NameSection, RefType, StorageType,
    TableSection, TableType, TagKind, TagSection, TagType, TypeSection, ValType,
};

impl Subject for Shape {
    const KINDS: &'static [&'static str] = &KINDS;

    fn any(kind: usize, random: &mut Random) -> Self {
        Self::any(kind, random)
    }

    fn changed(self, random: &mut Random) -> Self {
        self.changed(random)
    }

    fn kind(self) -> usize {
        self.kind
    }

    fn binary(self) -> Vec<u8> {
        Parts::of(self)
    }
}

/// The sections of a module.
struct Parts {
    shape: Shape,
    types: TypeSection,
    imports: ImportSection,
    funcs: FunctionSection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    code: CodeSection,
    data: DataSection,
    names: NameSection,
}

impl Parts {
    /// The module for a shape.
    fn of(shape: Shape) -> Vec<u8> {
        let mut parts = Self::new(shape);
        let Shape { count, arity, .. } = shape;
        if let Some(body) = body(shape) {
            let mut code = Function::new([(body.locals, ValType::I32)]);
            for operator in &body.operators {
                code.instruction(operator);
            }
            code.instruction(&Instruction::End);
            for _ in 0..count {
                parts.funcs.function(body.ty);
                parts.code.function(&code);
            }
        }
        match shape.name() {
            "imports" => (0..count).for_each(|_| parts.import(BOTH)),
            "imports and functions" => {
                for _ in 0..count {
                    parts.import(EMPTY);
                    parts.funcs.function(EMPTY);
                    let mut code = Function::new([]);
                    parts.code.function(code.instruction(&Instruction::End));
                }
            }
            "types that are imported and exported" => parts.types(count.min(50)),
            "exports" => (0..count).for_each(|at| parts.export(at)),
            "globals" => (0..count).for_each(|_| parts.global()),
            "segments of data" => {
                let bytes = vec![1; arity as usize];
                for at in 0..count {
                    let offset = ConstExpr::i32_const((at % 60_000).cast_signed());
                    parts.data.active(0, &offset, bytes.iter().copied());
                }
            }
            "segments of elements" => {
                let funcs = vec![0; (arity % 10) as usize];
                for _ in 0..count {
                    let offset = ConstExpr::i32_const(0);
                    let funcs = Elements::Functions(Cow::Borrowed(&funcs));
                    parts.elements.active(None, &offset, funcs);
                }
            }
            "types in groups" => (0..count.min(200)).for_each(|_| parts.group()),
            "types with supertypes" => (0..count.min(500)).for_each(|_| parts.chain()),
            "names" => {
                let mut names = NameMap::new();
                (0..count).for_each(|at| names.append(at % 3, "a name"));
                parts.names.functions(&names);
            }
            _ => {}
        }
        parts.finish()
    }

    fn new(shape: Shape) -> Self {
        let mut types = TypeSection::new();
        let values = values(shape);
        types.ty().function([], []);
        types.ty().function([], values.clone());
        types.ty().function(values.clone(), []);
        types.ty().function(values.clone(), values);
        types.ty().function([ValType::V128], [ValType::V128]);
        types.ty().array(&StorageType::Val(ValType::I32), true);
        types.ty().subtype(&structure(shape.arity, None));
        let mut parts = Self {
            shape,
            types,
            imports: ImportSection::new(),
            funcs: FunctionSection::new(),
            globals: GlobalSection::new(),
            exports: ExportSection::new(),
            elements: ElementSection::new(),
            code: CodeSection::new(),
            data: DataSection::new(),
            names: NameSection::new(),
        };
        // Imports shift the indices of these functions. In modules with imports, nothing refers to
        // these functions by index.
        for ty in [EMPTY, MAKES, TAKES] {
            parts.funcs.function(ty);
            let mut code = Function::new([]);
            // A function with a loop is not inlined, so calls of it remain calls.
            code.instruction(&Instruction::Loop(BlockType::Empty));
            code.instruction(&Instruction::End);
            if ty == MAKES {
                code.instruction(&Instruction::Unreachable);
            }
            parts.code.function(code.instruction(&Instruction::End));
        }
        let funcs = Elements::Functions(Cow::Borrowed(&[0, 1, 2]));
        parts.elements.active(None, &ConstExpr::i32_const(0), funcs);
        parts
    }

    fn import(&mut self, ty: u32) {
        self.imports.import("", "", EntityType::Function(ty));
    }

    fn export(&mut self, func: u32) {
        let name = format!("{func}");
        self.exports.export(&name, ExportKind::Func, func);
    }

    /// Distinct types, each for an import that is exported again.
    fn types(&mut self, count: u32) {
        let (values, depth) = (values(self.shape), self.shape.depth as usize);
        for at in 0..count {
            let params = values[..values.len().min(depth + at as usize)].to_vec();
            let ty = self.types.len();
            self.types.ty().function(params, values.clone());
            self.import(ty);
            self.export(at);
        }
    }

    fn global(&mut self) {
        let ty = GlobalType {
            val_type: ValType::I32,
            mutable: true,
            shared: false,
        };
        let mut init = ConstExpr::i32_const(1);
        for _ in 1..self.shape.repeats {
            init = init.with_i32_const(3).with_i32_add();
        }
        self.globals.global(ty, &init);
    }

    fn group(&mut self) {
        let group = vec![structure(self.shape.depth, None); self.shape.arity as usize];
        self.types.ty().rec(group);
    }

    /// A chain of types, each a subtype of the previous one, within the limit of supertypes.
    fn chain(&mut self) {
        for at in 0..self.shape.depth.min(60) {
            let supertype = (at > 0).then(|| self.types.len() - 1);
            let ty = structure(self.shape.arity.min(100), supertype);
            self.types.ty().subtype(&ty);
        }
    }

    fn finish(self) -> Vec<u8> {
        let (mut tables, mut memories, mut tags) =
            (TableSection::new(), MemorySection::new(), TagSection::new());
        tables.table(TableType {
            element_type: RefType::FUNCREF,
            table64: false,
            minimum: 10,
            maximum: None,
            shared: false,
        });
        memories.memory(MemoryType {
            minimum: 1,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
        tags.tag(TagType {
            kind: TagKind::Exception,
            func_type_idx: TAKES,
        });
        let mut module = Module::new();
        module
            .section(&self.types)
            .section(&self.imports)
            .section(&self.funcs)
            .section(&tables)
            .section(&memories)
            .section(&tags)
            .section(&self.globals)
            .section(&self.exports)
            .section(&self.elements)
            .section(&self.code)
            .section(&self.data)
            .section(&self.names);
        module.finish()
    }
}
