//! Takes the parts of a compiled function out of Cranelift's result: references, traps, the address
//! map, exception handlers.

use crate::code::{FunctionReloc, Location};
use crate::intrinsics::patch_point::{PatchPoint, PatchedCall};
use crate::symbol::Symbol;
use cranelift_codegen::ir::{self, ExternalName};
use cranelift_codegen::{
    CompiledCode, FinalizedMachCallSite, FinalizedMachExceptionHandler, FinalizedRelocTarget,
};
use pirn_format::exit::TrapCode;
use pirn_format::traps::HandlerEntry;

/// Resolves names in relocations. A call to anything but a function of this module is refused,
/// because a compiled module has no undefined symbols. Calls of patch points are returned
/// separately.
pub(super) fn relocs(
    compiled: &CompiledCode,
    func: &ir::Function,
) -> Result<(Vec<FunctionReloc>, Vec<PatchedCall>), String> {
    let names = func.params.user_named_funcs();
    let (mut relocs, mut found) = (vec![], vec![]);
    for reloc in compiled.buffer.relocs() {
        let (offset, kind, addend) = (reloc.offset, reloc.kind, reloc.addend);
        let name = match &reloc.target {
            FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => Some(&names[*name]),
            _ => None,
        };
        if let Some(point) = name.and_then(PatchPoint::from_name) {
            found.push(PatchedCall {
                offset,
                kind,
                addend,
                point,
            });
            continue;
        }
        let target = name.and_then(Symbol::from_name).ok_or_else(|| {
            let target = reloc.target.display(Some(&func.params));
            format!("it refers to {target}, which is not in the module")
        })?;
        relocs.push(FunctionReloc {
            offset,
            kind,
            addend,
            target,
        });
    }
    found.sort_unstable_by_key(|found| found.offset);
    Ok((relocs, found))
}

/// The WebAssembly instruction of each code range, where the instruction is known.
pub(super) fn locations(compiled: &CompiledCode) -> Vec<Location> {
    let known = compiled.buffer.get_srclocs_sorted().iter();
    known
        .filter(|location| !location.loc.is_default() && location.start < location.end)
        .map(|location| Location {
            start: location.start,
            end: location.end,
            wasm: location.loc.bits(),
            inlined: None,
        })
        .collect()
}

/// Offsets in a function, each with a number: a trap code, or an offset in the WebAssembly file.
pub(super) type Numbered = Vec<(u32, u32)>;

/// The trapping instructions, and the WebAssembly offsets of trapping instructions and of the last
/// bytes of calls.
pub(super) fn traps_and_addresses(
    compiled: &CompiledCode,
    patched: &[PatchedCall],
) -> Result<(Numbered, Numbered), String> {
    let locations = compiled.buffer.get_srclocs_sorted();
    // The location of the instruction that contains a byte.
    let wasm = |byte: u32| {
        let at = locations
            .partition_point(|location| location.start <= byte)
            .checked_sub(1)?;
        let location = &locations[at];
        (byte < location.end && !location.loc.is_default()).then(|| location.loc.bits())
    };
    let (mut traps, mut address_map) = (vec![], vec![]);
    for trap in compiled.buffer.traps() {
        traps.push((trap.offset, trap_number(trap.code)?));
        address_map.extend(wasm(trap.offset).map(|wasm| (trap.offset, wasm)));
    }
    let is_patched = |call: &&FinalizedMachCallSite<'_>| {
        let at = |found: &PatchedCall| found.return_address();
        patched.binary_search_by_key(&call.ret_addr, at).is_ok()
    };
    let calls = compiled.buffer.call_sites();
    for call in calls.filter(|call| !is_patched(&call)) {
        // The return address may be the address of an instruction that traps, so the last byte of
        // the call stands for it.
        let last = call.ret_addr - 1;
        address_map.extend(wasm(last).map(|wasm| (last, wasm)));
    }
    traps.sort_unstable();
    // Keeps one record for each offset: the record with the lowest trap code.
    traps.dedup_by_key(|(offset, _)| *offset);
    address_map.sort_unstable();
    address_map.dedup_by_key(|(offset, _)| *offset);
    Ok((traps, address_map))
}

/// The calls with an exception handler. All exceptions of a call go to one handler.
pub(super) fn handlers(compiled: &CompiledCode) -> Result<Vec<HandlerEntry>, String> {
    let mut handlers = vec![];
    for call in compiled.buffer.call_sites() {
        match (call.exception_handlers, call.frame_offset) {
            ([], _) => {}
            ([FinalizedMachExceptionHandler::Default(handler)], Some(frame_bytes)) => {
                handlers.push(HandlerEntry {
                    offset: call.ret_addr,
                    handler: *handler,
                    frame_bytes,
                });
            }
            (other, frame_bytes) => {
                return Err(format!(
                    "exceptions are caught by {other:?} in a frame of {frame_bytes:?}"
                ));
            }
        }
    }
    handlers.sort_unstable_by_key(|handler| handler.offset);
    Ok(handlers)
}

/// The number in the trap table for one of Cranelift's trap codes.
fn trap_number(code: ir::TrapCode) -> Result<u32, String> {
    let known = match code {
        ir::TrapCode::STACK_OVERFLOW => Some(TrapCode::StackOverflow),
        ir::TrapCode::HEAP_OUT_OF_BOUNDS => Some(TrapCode::MemoryOutOfBounds),
        ir::TrapCode::INTEGER_OVERFLOW => Some(TrapCode::IntegerOverflow),
        ir::TrapCode::INTEGER_DIVISION_BY_ZERO => Some(TrapCode::IntegerDivideByZero),
        ir::TrapCode::BAD_CONVERSION_TO_INTEGER => Some(TrapCode::InvalidConversionToInteger),
        other => TrapCode::from_number(u32::from(other.as_raw().get())),
    };
    known
        .map(|code| code as u32)
        .ok_or_else(|| format!("trap code {code} is unknown"))
}
