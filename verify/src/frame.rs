//! Loads and stores of the function's frame, and of arguments on the stack.

use crate::address::{Access, Use, is_data};
use crate::error::{Proof, Property, refuse};
use crate::state::{Slot, State};
use crate::value::{Kind, Symbol, Value};
use crate::vector::Extent;

/// Most bytes of a frame. The verifier keeps a value for each word.
const FRAME_BYTES_MAX: i32 = 4 << 20;

/// Most bytes of the stack between an access and the lowest earlier access. A slot's guard below
/// the stack has 64 KiB.
const STACK_STEP: i32 = 8 << 10;

/// An access to the frame, or to arguments on the stack.
pub(crate) fn stack(state: &mut State, access: &Access) -> Proof<Value> {
    let Some(at) = access.distance().and_then(|at| i32::try_from(at).ok()) else {
        return refuse(
            Property::Stack,
            "accesses the stack at an address that is not constant",
        );
    };
    let bytes = access.bytes as i32;
    let pointer = state.registers[state.abi.stack];
    let (Kind::Stack, Some(lowest)) = (pointer.kind, pointer.exact()) else {
        return refuse(Property::Stack, "the stack pointer is unknown");
    };
    if i64::from(at) < lowest || at > state.top() - bytes {
        return refuse(
            Property::Stack,
            format!(
                "accesses {bytes} bytes at {at} from the stack pointer at entry; the frame is \
                 {lowest} to {}",
                state.top()
            ),
        );
    }
    touch(state, at)?;
    let first = at & !7;
    // Fast path for the most frequent accesses.
    if bytes == 8 && at == first {
        let slot = state.slot(at);
        match access.usage {
            Use::Read if slot.written == u8::MAX => return Ok(loaded(slot.value, access)),
            Use::Write(value) => {
                state.set_slot(at, Slot::whole(value));
                return Ok(Value::any(access.fresh));
            }
            _ => {}
        }
    }
    if let (Use::Read, true) = (access.usage, at == first)
        && let Some(value) = partly_written(state, at, bytes)
    {
        return Ok(value);
    }
    if access.usage.reads() {
        for word in (first..at + bytes).step_by(8) {
            let missing = bytes_of(word, at, bytes) & !state.slot(word).written;
            if missing != 0 {
                let offset = word + missing.trailing_zeros() as i32;
                return refuse(
                    Property::Stack,
                    format!("reads byte {offset} of the frame, which was not written"),
                );
            }
        }
    }
    if access.usage.writes() {
        if let Use::Update = access.usage
            && (first..at + bytes)
                .step_by(8)
                .any(|word| !state.slot(word).value.is_number())
        {
            return refuse(
                Property::Types,
                "computes with a word of the frame that is no number",
            );
        }
        for word in (first..at + bytes).step_by(8) {
            let mask = bytes_of(word, at, bytes);
            // Each word gets its own symbol.
            let fresh = Symbol(access.fresh.0 | ((word - first) as u64 / 8) << 40);
            let value = match access.usage {
                Use::Write(value) if mask == 0xff => value,
                Use::Vector(extent) => part(extent, word - first, fresh),
                _ => Value::any(fresh),
            };
            if let Use::Write(value) = access.usage
                && mask != 0xff
                && !is_data(value, access.bytes)
            {
                return refuse(
                    Property::Types,
                    "stores a part of a value that is no number",
                );
            }
            if mask == u8::MAX {
                state.set_slot(word, Slot::whole(value));
                continue;
            }
            let old = state.slot(word);
            let written = old.written | mask;
            // A part of a word that holds an address must not become a number.
            if old.written != 0 && !old.value.is_number() {
                state.set_slot(
                    word,
                    Slot {
                        // The stored part of a vector may be no number either.
                        value: match value.kind {
                            Kind::Single if mask == 0x0f => value,
                            _ if value.is_number() => Value::any(fresh),
                            _ => Value::JUNK,
                        },
                        written: mask,
                    },
                );
                continue;
            }
            state.set_slot(word, Slot { value, written });
        }
        return Ok(Value::any(access.fresh));
    }
    match bytes {
        8 if at == first => Ok(loaded(state.slot(at).value, access)),
        16 if at == first => {
            let (low, high) = (state.slot(at).value, state.slot(at + 8).value);
            match (low.kind, high.is_number()) {
                (Kind::Single | Kind::Junk, _) => Ok(low),
                (_, true) if low.is_number() => Ok(access.number()),
                (_, false) if low.is_number() => Ok(Value::of(Kind::Double)),
                _ => refuse(Property::Types, "loads an address into a vector register"),
            }
        }
        4 if at == first && state.slot(at).value.kind == Kind::Single => Ok(access.number()),
        _ => {
            for word in (first..at + bytes).step_by(8) {
                let value = state.slot(word).value;
                if !value.is_number() {
                    return refuse(
                        Property::Types,
                        format!("reads {bytes} bytes of {:?} in the frame", value.kind),
                    );
                }
            }
            Ok(access.number())
        }
    }
}

/// The value that a load of a whole word gives.
fn loaded(word: Value, access: &Access) -> Value {
    match word.kind {
        Kind::Junk if word == Value::JUNK => Value::named(access.fresh, Kind::Junk),
        _ => word,
    }
}

/// Mask of the bytes of a word that an access of `bytes` bytes at `at` covers. Bit 0 is the lowest
/// byte.
fn bytes_of(word: i32, at: i32, bytes: i32) -> u8 {
    let (from, to) = (at.max(word) - word, (at + bytes).min(word + 8) - word);
    (((1_u16 << (to - from)) - 1) << from) as u8
}

/// The value of a load whose lowest 32 or 64 bits are a number, and whose other bits were not all
/// written. Code may use only the lowest bits. Code makes such loads to copy an f32 result that
/// lies in memory.
fn partly_written(state: &State, at: i32, bytes: i32) -> Option<Value> {
    let (low, high) = (state.slot(at), state.slot(at + 8));
    let is_single = low.value.is_number() || low.value.kind == Kind::Single;
    let is_whole = low.written == u8::MAX && (bytes == 8 || high.written == u8::MAX);
    match bytes {
        8 | 16 if is_whole || !is_single || low.written & 0x0f != 0x0f => None,
        16 if low.written == u8::MAX && low.value.is_number() => Some(Value::of(Kind::Double)),
        8 | 16 => Some(Value::of(Kind::Single)),
        _ => None,
    }
}

/// The word at `byte`, a multiple of 8, of a stored vector register.
fn part(extent: Extent, byte: i32, fresh: Symbol) -> Value {
    match (extent, byte) {
        (Extent::Whole, _) | (Extent::Double, 0) => Value::any(fresh),
        (Extent::Single, 0) => Value::of(Kind::Single),
        _ => Value::JUNK,
    }
}

/// Notes an access to the stack at `at`, and checks that the access does not skip the guard.
pub(crate) fn touch(state: &mut State, at: i32) -> Proof<()> {
    reach(state, at)?;
    state.touched = state.touched.min(at);
    Ok(())
}

/// Checks that a place of the stack is at most [`STACK_STEP`] bytes below the lowest access.
pub(crate) fn reach(state: &State, at: i32) -> Proof<()> {
    if at < -FRAME_BYTES_MAX {
        return refuse(
            Property::Stack,
            format!(
                "has a frame of {} bytes; at most {FRAME_BYTES_MAX} are proven",
                i64::from(at).abs()
            ),
        );
    }
    if at < state.touched - STACK_STEP {
        return refuse(
            Property::Stack,
            format!(
                "accesses the stack at {at}, {} bytes below the lowest access; at most \
                 {STACK_STEP} may be skipped",
                state.touched - at
            ),
        );
    }
    Ok(())
}
