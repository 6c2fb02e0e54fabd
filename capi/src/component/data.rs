//! [`Data`]: the host's data of a component's instance, and the types of its library.

use super::caller::pirn_component_caller_t;
use crate::caller::CallerPlace;
use core::ffi::c_void;
use pirn_wasi2::{View, Wasi, WasiBuilder};

/// The host's data of an instance.
pub(crate) struct Data {
    /// The context of WASI. Made at its first use if the embedder gave none.
    wasi: Option<Wasi>,
    /// Owns the handle that host functions get. The handle holds the pointer of the embedder.
    pub(crate) caller: CallerPlace<pirn_component_caller_t>,
}

pub(crate) type Inst = pirn_component::Instance<Data>;
pub(crate) type Link = pirn_component::Linker<Data>;
pub(crate) type Prep = pirn_component::Prepared<Data>;

impl Data {
    pub(crate) fn new(host: *mut c_void, wasi: Option<Wasi>) -> Self {
        Self {
            wasi,
            caller: CallerPlace::new(pirn_component_caller_t::new(host)),
        }
    }
}

impl View for Data {
    fn wasi(&mut self) -> &mut Wasi {
        self.wasi.get_or_insert_with(|| WasiBuilder::new().build())
    }
}
