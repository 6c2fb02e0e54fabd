//! [`with_looks`]: a guest with functions more, that give what not every host sees: the elements of tables, and a number of
//! all bytes of a shared memory. Its waits end at once.

use wasm_encoder::reencode::{self, Reencode, utils};
use wasm_encoder::{
    BlockType, CodeSection, CustomSection, ExportKind, ExportSection, Function, FunctionSection,
    Instruction, MemArg, MemArgTarget, TypeSection, ValType,
};
use wasmparser::{
    CodeSectionReader, CustomSectionReader, ExportSectionReader, FunctionBody,
    FunctionSectionReader, MemoryType, Operator, Parser, Payload, TableType, TypeRef,
    TypeSectionReader,
};

/// What the name of a function begins with that gives an element of a table by its index.
pub(super) const TABLE: &str = "pirn table ";
/// What the name of a function begins with that gives a number of a memory.
pub(super) const MEMORY: &str = "pirn memory ";

type Error = reencode::Error<std::convert::Infallible>;

/// A function that is added.
struct Look {
    name: String,
    params: Vec<ValType>,
    result: ValType,
    body: Function,
}

/// What is added to a module, and after how much.
#[derive(Default)]
struct Looker {
    looks: Vec<Look>,
    types: u32,
    funcs: u32,
    waits: bool,
}

/// The module with such functions, or as it was if it has none of its own.
///
/// # Errors
///
/// It is malformed, which no module is that was generated.
pub(super) fn with_looks(wasm: Vec<u8>) -> Result<Vec<u8>, Error> {
    let mut looker = Looker::default();
    let (mut has_code, mut has_exports) = (false, false);
    for payload in Parser::new(0).parse_all(&wasm) {
        match payload? {
            Payload::TypeSection(types) => {
                for group in types {
                    looker.types += group?.types().len() as u32;
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    looker.funcs += u32::from(matches!(import?.ty, TypeRef::Func(_)));
                }
            }
            Payload::FunctionSection(funcs) => looker.funcs += funcs.count(),
            Payload::TableSection(tables) => {
                for (index, table) in (0..).zip(tables) {
                    let look = table_look(index, table?.ty)?;
                    looker.looks.push(look);
                }
            }
            Payload::MemorySection(memories) => {
                for (index, memory) in (0..).zip(memories) {
                    let memory = memory?;
                    if memory.shared {
                        looker.looks.push(memory_look(index, memory));
                        looker.waits = true;
                    }
                }
            }
            Payload::ExportSection(_) => has_exports = true,
            Payload::CodeSectionStart { .. } => has_code = true,
            _ => {}
        }
    }
    if !has_code || !has_exports || looker.looks.is_empty() {
        return Ok(wasm);
    }
    let mut module = wasm_encoder::Module::new();
    looker.parse_core_module(&mut module, Parser::new(0), &wasm)?;
    Ok(module.finish())
}

/// The element of an index.
fn table_look(index: u32, ty: TableType) -> Result<Look, Error> {
    let mut body = Function::new([]);
    body.instructions().local_get(0).table_get(index).end();
    Ok(Look {
        name: format!("{TABLE}{index}"),
        params: vec![index_type(ty.table64)],
        result: ValType::Ref(reencode::RoundtripReencoder.ref_type(ty.element_type)?),
        body,
    })
}

/// A number that each byte of a memory changes, by its place.
fn memory_look(index: u32, ty: MemoryType) -> Look {
    let (at, end, sum) = (0, 1, 2);
    let address = index_type(ty.memory64);
    let constant = |value: i64| match address {
        ValType::I64 => Instruction::I64Const(value),
        _ => Instruction::I32Const(value as i32),
    };
    let of = |wide: Instruction<'static>, narrow: Instruction<'static>| match address {
        ValType::I64 => wide,
        _ => narrow,
    };
    let byte = MemArg {
        offset: 0,
        align: 0,
        target: MemArgTarget::Memory(index),
        ordering: None,
    };
    let page_bytes = 1 << ty.page_size_log2.unwrap_or(16);
    let mut body = Function::new([(2, address), (1, ValType::I64)]);
    for instruction in [
        Instruction::MemorySize(index),
        constant(page_bytes),
        of(Instruction::I64Mul, Instruction::I32Mul),
        Instruction::LocalSet(end),
        Instruction::Block(BlockType::Empty),
        Instruction::Loop(BlockType::Empty),
        Instruction::LocalGet(at),
        Instruction::LocalGet(end),
        of(Instruction::I64GeU, Instruction::I32GeU),
        Instruction::BrIf(1),
        Instruction::LocalGet(sum),
        Instruction::LocalGet(at),
        Instruction::I64Load8U(byte),
        Instruction::I64Xor,
        // FNV's prime: odd, so no byte is lost.
        Instruction::I64Const(0x100_0000_01b3),
        Instruction::I64Mul,
        Instruction::LocalSet(sum),
        Instruction::LocalGet(at),
        constant(1),
        of(Instruction::I64Add, Instruction::I32Add),
        Instruction::LocalSet(at),
        Instruction::Br(0),
        Instruction::End,
        Instruction::End,
        Instruction::LocalGet(sum),
        Instruction::End,
    ] {
        body.instruction(&instruction);
    }
    Look {
        name: format!("{MEMORY}{index}"),
        params: vec![],
        result: ValType::I64,
        body,
    }
}

fn index_type(is_64: bool) -> ValType {
    if is_64 { ValType::I64 } else { ValType::I32 }
}

impl Reencode for Looker {
    type Error = std::convert::Infallible;

    fn parse_custom_section(
        &mut self,
        module: &mut wasm_encoder::Module,
        section: CustomSectionReader<'_>,
    ) -> Result<(), Error> {
        // As it is: one with a name that is known need not hold what the name says.
        module.section(&CustomSection {
            name: section.name().into(),
            data: section.data().into(),
        });
        Ok(())
    }

    fn parse_type_section(
        &mut self,
        types: &mut TypeSection,
        section: TypeSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_type_section(self, types, section)?;
        for look in &self.looks {
            types
                .ty()
                .function(look.params.iter().copied(), [look.result]);
        }
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        funcs: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_function_section(self, funcs, section)?;
        for (ty, _) in (self.types..).zip(&self.looks) {
            funcs.function(ty);
        }
        Ok(())
    }

    fn parse_export_section(
        &mut self,
        exports: &mut ExportSection,
        section: ExportSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_export_section(self, exports, section)?;
        for (func, look) in (self.funcs..).zip(&self.looks) {
            exports.export(&look.name, ExportKind::Func, func);
        }
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: CodeSectionReader<'_>,
    ) -> Result<(), Error> {
        utils::parse_code_section(self, code, section)?;
        for look in &self.looks {
            code.function(&look.body);
        }
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut CodeSection,
        body: FunctionBody<'_>,
    ) -> Result<(), Error> {
        // As it is, with numbers in more bytes than they need.
        if !self.waits {
            code.raw(body.as_bytes());
            return Ok(());
        }
        let mut func = self.new_function_with_parsed_locals(&body)?;
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            let operator = operators.read()?;
            if matches!(
                operator,
                Operator::MemoryAtomicWait32 { .. } | Operator::MemoryAtomicWait64 { .. }
            ) {
                // In place of the time it may take, of which no other thread will relieve it.
                func.instructions().drop().i64_const(0);
            }
            func.instruction(&self.instruction(operator)?);
        }
        code.function(&func);
        Ok(())
    }
}
