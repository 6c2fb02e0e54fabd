//! The frames and the texts of an error, made at their first use.

use super::{Cause, pirn_error_kind_t, pirn_error_t};
use crate::texts::{c_pointer, c_text};
use core::ffi::{CStr, c_char};
use pirn_runtime::{CallError, Frame};
use pirn_wasi::Exit;
use std::ffi::CString;

/// A frame of a WebAssembly function in a backtrace. The guest chooses its names: they may contain
/// control characters, which pirn_error_message and pirn_error_report escape.
#[repr(C)]
pub struct pirn_frame_t {
    /// Index of the function in its module, counting imported functions.
    pub func_index: u32,
    /// Offset in the `.wasm` file, in bytes: of the faulting instruction in the innermost frame, of
    /// the call in the other frames. -1 if the offset is unknown.
    pub wasm_offset: i64,
    /// Name of the function, or NULL if the function has no name. Valid as long as the error.
    pub func_name: *const c_char,
    /// Name of the module, or NULL if the module has no name. Valid as long as the error.
    pub module_name: *const c_char,
}

/// The names of a frame, and its numbers.
pub(crate) struct FrameTexts {
    func_index: u32,
    wasm_offset: Option<u32>,
    func_name: Option<CString>,
    module_name: Option<CString>,
}

impl FrameTexts {
    pub(super) fn of(frame: &Frame) -> Self {
        Self {
            func_index: frame.func_index(),
            wasm_offset: frame.wasm_offset(),
            func_name: frame.func_name().map(c_text),
            module_name: frame.module_name().map(c_text),
        }
    }

    pub(crate) fn pointers(&self) -> pirn_frame_t {
        pirn_frame_t {
            func_index: self.func_index,
            wasm_offset: self.wasm_offset.map_or(-1, i64::from),
            func_name: c_pointer(self.func_name.as_deref()),
            module_name: c_pointer(self.module_name.as_deref()),
        }
    }
}

impl pirn_error_t {
    pub(crate) fn frames(&self) -> &[FrameTexts] {
        self.frames.get_or_init(|| {
            let frames = self.cause.frames().iter();
            frames.map(FrameTexts::of).collect()
        })
    }

    pub(crate) fn message(&self) -> &CStr {
        self.message.get_or_init(|| c_text(&self.cause.to_string()))
    }

    pub(crate) fn report(&self) -> &CStr {
        self.report.get_or_init(|| c_text(&self.cause.report()))
    }

    pub(crate) fn trap_code(&self) -> u32 {
        match &self.cause {
            Cause::Trap(trap) | Cause::Call(CallError::Trap(trap)) => trap.code() as u32,
            _ => 0,
        }
    }

    pub(crate) fn kind(&self) -> pirn_error_kind_t {
        self.kind
    }

    pub(crate) fn user(&self) -> u64 {
        self.user
    }

    /// The exit code of a guest; 0 if the guest did not exit.
    pub(crate) fn exit_code(&self) -> u32 {
        match &self.cause {
            Cause::Call(error) => Exit::of(error).map_or(0, |exit| exit.code),
            _ => 0,
        }
    }
}
