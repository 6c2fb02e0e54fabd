//! [`Frame`]: one WebAssembly function in a backtrace.

use crate::module::Module;
use core::fmt;
use pirn_format::text;

/// One WebAssembly function on a guest's stack.
#[derive(Clone)]
pub struct Frame {
    module: Module,
    func: u32,
    wasm_offset: Option<u32>,
}

impl Frame {
    pub(crate) fn new(module: Module, func: u32, wasm_offset: Option<u32>) -> Self {
        Self {
            module,
            func,
            wasm_offset,
        }
    }

    /// Index of the function in its module, counting imported functions.
    #[must_use]
    pub fn func_index(&self) -> u32 {
        self.func
    }

    /// Name of the function, from the name section, or else from its first export.
    #[must_use]
    pub fn func_name(&self) -> Option<&str> {
        self.module.metadata().func_name(self.func)
    }

    /// Name of the module, from its name section.
    #[must_use]
    pub fn module_name(&self) -> Option<&str> {
        self.module.name()
    }

    /// Offset in the `.wasm` file, in bytes, if it is known. For the innermost frame, this is the
    /// offset of the faulting instruction. For the other frames, this is the offset of the call.
    #[must_use]
    pub fn wasm_offset(&self) -> Option<u32> {
        self.wasm_offset
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(module) = self.module_name() {
            write!(f, "{}!", text::plain(module))?;
        }
        match self.func_name() {
            Some(name) => write!(f, "{}", text::plain(name))?,
            None => write!(f, "wasm[{}]", self.func)?,
        }
        match self.wasm_offset {
            Some(offset) => write!(f, " at {offset:#x}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({self})")
    }
}
