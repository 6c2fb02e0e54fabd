//! [`Data`]: the host's data of a component's instance, and the types of its library.

use super::caller::CallerPlace;
use core::ffi::c_void;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;
use pirn_wasi2::{View, Wasi, WasiBuilder};

/// The host's data of an instance.
pub(crate) struct Data {
    /// The pointer of the embedder, which the library passes on and never reads.
    host: AtomicPtr<c_void>,
    /// Made at its first use if the embedder gave none.
    wasi: Option<Wasi>,
    /// The place of the handle that host functions get.
    pub(crate) caller: CallerPlace,
}

pub(crate) type Inst = pirn_component::Instance<Data>;
pub(crate) type Link = pirn_component::Linker<Data>;
pub(crate) type Prep = pirn_component::Prepared<Data>;

impl Data {
    pub(crate) fn new(host: *mut c_void, wasi: Option<Wasi>) -> Self {
        Self {
            host: AtomicPtr::new(host),
            wasi,
            caller: CallerPlace::new(host),
        }
    }

    pub(crate) fn host(&self) -> *mut c_void {
        self.host.load(Relaxed)
    }
}

impl View for Data {
    fn wasi(&mut self) -> &mut Wasi {
        self.wasi.get_or_insert_with(|| WasiBuilder::new().build())
    }
}
