//! [`with_looks`] adds functions to a guest. They return state that not every host can read: the
//! elements of tables, and a hash of a shared memory. It also makes waits end at once, and makes
//! NaNs canonical where the generator does not.

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

/// Prefix of the name of a function that returns an element of a table by its index.
pub(super) const TABLE: &str = "pirn table ";
/// Prefix of the name of a function that returns a hash of a memory.
pub(super) const MEMORY: &str = "pirn memory ";

type Error = reencode::Error<std::convert::Infallible>;

/// An added function, and its export name if it is exported.
struct Look {
    name: Option<String>,
    params: Vec<ValType>,
    result: ValType,
    body: Function,
}

/// The functions to add, and the numbers of types and functions before them.
#[derive(Default)]
struct Looker {
    looks: Vec<Look>,
    types: u32,
    funcs: u32,
}

/// Adds such functions to a module. A module without its own functions or exports is not changed.
///
/// # Errors
///
/// If the module is malformed. No generated module is.
pub(super) fn with_looks(wasm: Vec<u8>) -> Result<Vec<u8>, Error> {
    let mut looker = Looker {
        looks: Floats::ALL.map(Look::canonical).into(),
        ..Looker::default()
    };
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
                    }
                }
            }
            Payload::ExportSection(_) => has_exports = true,
            Payload::CodeSectionStart { .. } => has_code = true,
            _ => {}
        }
    }
    if !has_code || !has_exports {
        return Ok(wasm);
    }
    let mut module = wasm_encoder::Module::new();
    looker.parse_core_module(&mut module, Parser::new(0), &wasm)?;
    Ok(module.finish())
}

/// Floats that an operator returns with an unspecified NaN: one of 32 or 64 bits, or lanes of them.
/// The first added functions make them canonical, in the order of these variants.
#[derive(Debug, Clone, Copy)]
enum Floats {
    F32,
    F64,
    F32x4,
    F64x2,
}

impl Floats {
    const ALL: [Self; 4] = [Self::F32, Self::F64, Self::F32x4, Self::F64x2];

    /// The result of an operator whose NaNs wasm-smith 0.263 does not make canonical.
    fn of(operator: &Operator<'_>) -> Option<Self> {
        Some(match operator {
            Operator::F32DemoteF64 => Self::F32,
            Operator::F64PromoteF32 => Self::F64,
            Operator::F32x4DemoteF64x2Zero
            | Operator::F32x4RelaxedMadd
            | Operator::F32x4RelaxedNmadd
            | Operator::F32x4RelaxedMin
            | Operator::F32x4RelaxedMax => Self::F32x4,
            Operator::F64x2PromoteLowF32x4
            | Operator::F64x2RelaxedMadd
            | Operator::F64x2RelaxedNmadd
            | Operator::F64x2RelaxedMin
            | Operator::F64x2RelaxedMax => Self::F64x2,
            _ => return None,
        })
    }
}

impl Look {
    /// A function that returns its argument with canonical NaNs.
    fn canonical(floats: Floats) -> Self {
        let (nan_32, nan_64) = (0x7fc0_0000_u32, 0x7ff8_u64 << 48);
        let narrow = (0..4).fold(0, |lanes, _| lanes << 32 | i128::from(nan_32));
        let wide = (0..2).fold(0, |lanes, _| lanes << 64 | i128::from(nan_64));
        let (ty, nan, is_same, select) = match floats {
            Floats::F32 => (
                ValType::F32,
                Instruction::F32Const(f32::from_bits(nan_32).into()),
                Instruction::F32Eq,
                Instruction::Select,
            ),
            Floats::F64 => (
                ValType::F64,
                Instruction::F64Const(f64::from_bits(nan_64).into()),
                Instruction::F64Eq,
                Instruction::Select,
            ),
            Floats::F32x4 => (
                ValType::V128,
                Instruction::V128Const(narrow),
                Instruction::F32x4Eq,
                Instruction::V128Bitselect,
            ),
            Floats::F64x2 => (
                ValType::V128,
                Instruction::V128Const(wide),
                Instruction::F64x2Eq,
                Instruction::V128Bitselect,
            ),
        };
        let mut body = Function::new([]);
        let value = Instruction::LocalGet(0);
        for instruction in [
            &value,
            &nan,
            &value,
            &value,
            &is_same,
            &select,
            &Instruction::End,
        ] {
            body.instruction(instruction);
        }
        Self {
            name: None,
            params: vec![ty],
            result: ty,
            body,
        }
    }
}

/// A function that returns the table element at an index.
fn table_look(index: u32, ty: TableType) -> Result<Look, Error> {
    let mut body = Function::new([]);
    body.instructions().local_get(0).table_get(index).end();
    Ok(Look {
        name: Some(format!("{TABLE}{index}")),
        params: vec![index_type(ty.table64)],
        result: ValType::Ref(reencode::RoundtripReencoder.ref_type(ty.element_type)?),
        body,
    })
}

/// A function that returns a hash of a memory, which depends on each byte and its position.
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
        // FNV's prime. It is odd, so the multiplication loses no information.
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
        name: Some(format!("{MEMORY}{index}")),
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
        // Copied unchanged: a custom section with a known name may have invalid content.
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
            if let Some(name) = &look.name {
                exports.export(name, ExportKind::Func, func);
            }
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
        let mut func = self.new_function_with_parsed_locals(&body)?;
        let (mut operators, mut is_same) = (body.get_operators_reader()?, true);
        while !operators.eof() {
            let operator = operators.read()?;
            let floats = Floats::of(&operator);
            if matches!(
                operator,
                Operator::MemoryAtomicWait32 { .. } | Operator::MemoryAtomicWait64 { .. }
            ) {
                // Replaces the timeout by 0: no other thread would wake the guest.
                func.instructions().drop().i64_const(0);
                is_same = false;
            }
            func.instruction(&self.instruction(operator)?);
            if let Some(floats) = floats {
                func.instructions().call(self.funcs + floats as u32);
                is_same = false;
            }
        }
        match is_same {
            // Copied unchanged: it may encode numbers in more bytes than necessary.
            true => code.raw(body.as_bytes()),
            false => code.function(&func),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pirn_compiler::{Options, compile, parse_text};
    use pirn_runtime::{Linker, Module, Region, Value};

    #[test]
    fn waits_end_nans_are_canonical_and_state_is_readable() {
        const GUEST: &str = r#"(module (memory 1 1 shared) (table 2 2 externref)
          (func (export "promoted") (result i64) (i64.reinterpret_f64 (f64.promote_f32 (f32.const -nan:0x7ffffd))))
          (func (export "demoted") (result i32) (i32.reinterpret_f32 (f32.demote_f64 (f64.const -nan:0xfffffffffff))))
          (func (export "lanes") (result i64)
            (i64x2.extract_lane 1 (f64x2.promote_low_f32x4 (v128.const f32x4 0 -nan:0x7ffffd 0 0))))
          (func (export "wait") (result i32) (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1)))
          (func (export "store") (i32.store8 (i32.const 65535) (i32.const 1))))"#;
        let wasm = parse_text(GUEST.as_bytes()).unwrap().into_owned();
        let so = compile(&with_looks(wasm).unwrap(), &Options::default()).unwrap();
        let module = Module::from_bytes(&so).unwrap();
        let region = Region::builder().slots(1).build().unwrap();
        let prepared = region.prepare(&module, &Linker::<()>::new()).unwrap();
        let mut guest = prepared.try_instantiate(()).unwrap();
        let mut call = |name: &str, params: &[Value]| guest.call_values(name, params).ok();
        let wide = Some(vec![Value::I64(0x7ff8 << 48)]);
        assert_eq!(call("promoted", &[]), wide);
        assert_eq!(call("lanes", &[]), wide);
        assert_eq!(call("demoted", &[]), Some(vec![Value::I32(0x7fc0_0000)]));
        assert_eq!(call("wait", &[]), Some(vec![Value::I32(2)]));
        let null = Some(vec![Value::ExternRef(None)]);
        assert_eq!(call("pirn table 0", &[Value::I32(1)]), null);
        assert_eq!(call("pirn table 0", &[Value::I32(2)]), None);
        assert_eq!(call("pirn memory 0", &[]), Some(vec![Value::I64(0)]));
        call("store", &[]).unwrap();
        assert_eq!(
            call("pirn memory 0", &[]),
            Some(vec![Value::I64(0x100_0000_01b3)])
        );
    }
}
