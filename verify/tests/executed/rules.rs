//! [`Rules`]: the actions that `docs/internals/verifier.md` allows an instruction. The rules read
//! the real registers before each instruction, so they need no proof.

use crate::world::{REACH, World};
use iced_x86::{Instruction, Mnemonic, OpAccess, Register};
use pirn_format::layout::{
    CONTEXT_COPY, CONTEXT_EXCEPTION_TAG, CONTEXT_EXCEPTION_VALUES, CONTEXT_EXIT, CONTEXT_FILL,
    CONTEXT_FUEL, CONTEXT_HOST_CALL, CONTEXT_MEMORY, FUNCREF_CODE, FUNCREF_TYPE_ID, FUNCREF_VMCTX,
    IMPORT_CODE, IMPORT_HOST, IMPORT_INSTANCE, IMPORT_VMCTX, MEMORY_BASE, MEMORY_BYTES, TABLE_BASE,
    TABLE_ELEMENTS,
};
use pirn_format::read::Checked;
use pirn_format::types::ValType;

/// Bytes of the stack that code may skip.
const SKIPPED_MAX: u64 = 8 << 10;

/// Bytes of the lowest page, where nothing is mapped.
const LOWEST_PAGE: u64 = 4096;

/// A field that code may access: distance from the context, bytes, and whether code may write it.
struct Field {
    at: i64,
    bytes: u64,
    is_writable: bool,
    /// Whether an access to a part of the field is allowed.
    has_parts: bool,
}

/// The rules for the code of one module.
pub(crate) struct Rules {
    fields: Vec<Field>,
    tables_change: bool,
}

/// The part of the stack that a function may use.
pub(crate) struct StackRange {
    /// The stack pointer before the instruction.
    pub(crate) pointer: u64,
    /// End of the arguments of the function that was entered first.
    pub(crate) top: u64,
    /// End of the memory for results, which follows the arguments. Code only writes this memory.
    pub(crate) area_end: u64,
    /// Lowest byte that was accessed.
    pub(crate) touched: u64,
}

/// An access that the rules allow.
#[derive(PartialEq, Eq)]
pub(crate) enum Allowed {
    Yes,
    /// Only if the trap table has the instruction, because the access may fault.
    WithTrap,
}

impl Rules {
    pub(crate) fn new(checked: &Checked) -> Self {
        let (metadata, layout) = (&checked.metadata, &checked.layout);
        let imported = metadata.imported();
        let mut fields = vec![];
        let mut word = |at: i32| {
            fields.push(Field {
                at: at.into(),
                bytes: 8,
                is_writable: false,
                has_parts: false,
            });
        };
        for at in [
            CONTEXT_EXIT,
            CONTEXT_HOST_CALL,
            CONTEXT_COPY,
            CONTEXT_FILL,
            CONTEXT_EXCEPTION_TAG,
            CONTEXT_EXCEPTION_VALUES,
            CONTEXT_MEMORY + MEMORY_BASE,
            CONTEXT_MEMORY + MEMORY_BYTES,
        ] {
            word(at);
        }
        for table in imported.tables..metadata.tables.len() as u32 {
            word(layout.table(table) + TABLE_BASE);
            word(layout.table(table) + TABLE_ELEMENTS);
        }
        for import in 0..imported.funcs {
            for at in [IMPORT_CODE, IMPORT_VMCTX, IMPORT_INSTANCE, IMPORT_HOST] {
                word(layout.import(import) + at);
            }
        }
        for record in 0..metadata.address_taken.len() as u32 {
            word(layout.funcref(record) + FUNCREF_CODE);
            word(layout.funcref(record) + FUNCREF_VMCTX);
        }
        for tag in 0..metadata.tags.len() as u32 {
            word(layout.tag(tag));
        }
        let types = (0..metadata.types.len() as u32).map(|ty| layout.type_id(ty));
        let records = (0..metadata.address_taken.len() as u32)
            .map(|record| layout.funcref(record) + FUNCREF_TYPE_ID);
        fields.extend(types.chain(records).map(|at| Field {
            at: at.into(),
            bytes: 4,
            is_writable: false,
            has_parts: false,
        }));
        fields.extend(metadata.globals.iter().enumerate().map(|(index, ty)| {
            let is_reference = matches!(ty.content, ValType::Ref(_));
            Field {
                at: layout.global(index as u32).into(),
                bytes: if is_reference { 8 } else { 16 },
                is_writable: ty.mutable,
                has_parts: !is_reference,
            }
        }));
        if metadata.fuel {
            fields.push(Field {
                at: CONTEXT_FUEL.into(),
                bytes: 8,
                is_writable: true,
                has_parts: false,
            });
        }
        Self {
            fields,
            tables_change: metadata.tables_change,
        }
    }

    /// Checks an access.
    pub(crate) fn access(
        &self,
        world: &World,
        stack: &StackRange,
        (at, bytes): (u64, u64),
        (reads, writes): (bool, bool),
    ) -> Result<Allowed, String> {
        let distance = at.wrapping_sub(world.vmctx).cast_signed();
        let end = distance.checked_add(bytes.cast_signed());
        let what = || format!("{bytes} bytes at {distance:#x} from the context");
        if distance >= 0 && end.is_some_and(|end| end.cast_unsigned() <= REACH) {
            return Ok(Allowed::WithTrap);
        }
        if at < LOWEST_PAGE {
            return Ok(Allowed::WithTrap);
        }
        let is_within = |low: u64, high: u64| at >= low && at <= high.saturating_sub(bytes);
        if is_within(world.area, world.vmctx) {
            let fits = |field: &&Field| match field.has_parts {
                true => {
                    distance >= field.at
                        && end.is_some_and(|end| end <= field.at + field.bytes.cast_signed())
                }
                false => distance == field.at && bytes == field.bytes,
            };
            return match self.fields.iter().find(fits) {
                Some(field) if !writes || field.is_writable => Ok(Allowed::Yes),
                Some(_) => Err(format!("writes {}", what())),
                None => Err(format!("accesses {}, no field", what())),
            };
        }
        if is_within(world.text, world.text + world.text_bytes) && !writes {
            return Ok(Allowed::Yes);
        }
        for table in &world.tables {
            let end = table.base + 8 * table.elements;
            // A mask against speculation may select element 0 of an empty table.
            let is_first = at == table.base && !writes;
            if (is_within(table.base, end) || is_first) && bytes == 8 && (at - table.base) % 8 == 0
            {
                return match writes && !self.tables_change {
                    false => Ok(Allowed::Yes),
                    true => Err("writes a table that does not change".to_owned()),
                };
            }
        }
        if is_within(stack.pointer, stack.top) {
            return self.near(stack, at).map(|()| Allowed::Yes);
        }
        if is_within(stack.top, stack.area_end) && !reads {
            return Ok(Allowed::Yes);
        }
        Err(format!(
            "accesses {}, {:#x} from the stack pointer",
            what(),
            at.wrapping_sub(stack.pointer).cast_signed()
        ))
    }

    /// Checks that code does not skip the guard below the stack.
    pub(crate) fn near(&self, stack: &StackRange, at: u64) -> Result<(), String> {
        match at < stack.touched - SKIPPED_MAX {
            true => Err(format!(
                "stack: uses {:#x}, {} bytes below the lowest access",
                at,
                stack.touched - at
            )),
            false => Ok(()),
        }
    }
}

/// Reads a register's 64 bits by its number.
pub(crate) type Registers<'a> = &'a dyn Fn(usize) -> u64;

/// The accesses of an instruction: address, bytes, and whether the access reads and writes.
pub(crate) fn accesses(
    factory: &mut iced_x86::InstructionInfoFactory,
    instruction: &Instruction,
    registers: Registers<'_>,
) -> Vec<(u64, u64, bool, bool)> {
    let info = factory.info(instruction);
    let used = info.used_memory().iter().filter_map(|used| {
        let (reads, writes) = match used.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite => (false, true),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            OpAccess::None | OpAccess::NoMemAccess => return None,
        };
        let value = |register: Register, _: usize, _: usize| match register {
            // Segments start at address 0.
            register if register.is_segment_register() => Some(0),
            register if register.is_gpr() => {
                let whole = registers(register.full_register().number());
                Some(match register.size() {
                    8 => whole,
                    size => whole & ((1 << (8 * size)) - 1),
                })
            }
            _ => None,
        };
        // The rules allow no address by other registers.
        let at = used.virtual_address(0, value).unwrap_or(u64::MAX);
        Some((at, used.memory_size().size() as u64, reads, writes))
    });
    used.collect()
}

/// Whether an instruction would enter the kernel, reveal the processor, change the execution of the
/// host, or use registers that a time slice does not keep. The verifier's list has no such
/// instruction. The list here need not be complete.
pub(crate) fn is_foreign(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Clflush, Cli, Cpuid, Emms, Enter, Hlt, In, Int, Int1, Int3, Into, Iretq, Ldmxcsr, Out,
        Pause, Popf, Popfq, Prefetchnta, Prefetcht0, Pushf, Pushfq, Rdfsbase, Rdgsbase, Rdpid,
        Rdrand, Rdseed, Rdtsc, Rdtscp, Std, Sti, Stmxcsr, Swapgs, Syscall, Sysenter, Verr,
        Vldmxcsr, Vstmxcsr, Wrfsbase, Wrgsbase, Xbegin, Xgetbv, Xrstor, Xsave,
    };
    #[rustfmt::skip]
    let is_special = matches!(
        instruction.mnemonic(),
        Clflush | Cli | Cpuid | Emms | Enter | Hlt | In | Int | Int1 | Int3 | Into | Iretq
            | Ldmxcsr | Out | Pause | Popf | Popfq | Prefetchnta | Prefetcht0 | Pushf | Pushfq
            | Rdfsbase | Rdgsbase | Rdpid | Rdrand | Rdseed | Rdtsc | Rdtscp | Std | Sti | Stmxcsr
            | Swapgs | Syscall | Sysenter | Verr | Vldmxcsr | Vstmxcsr | Wrfsbase | Wrgsbase
            | Xbegin | Xgetbv | Xrstor | Xsave
    );
    let is_offset = matches!(instruction.segment_prefix(), Register::FS | Register::GS);
    let is_other = (0..instruction.op_count()).any(|at| {
        let register = instruction.op_register(at);
        let is_wide = register.is_ymm() || register.is_zmm() || register.is_k();
        let is_late = register.is_vector_register() && register.number() >= 16;
        let is_control = register.is_cr() || register.is_segment_register();
        register.is_mm() || register.is_st() || is_control || is_wide || is_late
    });
    let is_unit = instruction.is_string_instruction()
        || instruction.op_mask() != Register::None
        || instruction.fpu_stack_increment_info().writes_top();
    is_special || is_offset || is_other || is_unit || instruction.is_invalid()
}
