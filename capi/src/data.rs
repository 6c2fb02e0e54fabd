//! [`Data`]: the host's data of an instance, and the types of its runtime.

use crate::caller::{CallerPlace, pirn_caller_t};
use crate::error::pirn_error_t;
use crate::references::References;
use core::ffi::c_void;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;
use pirn_runtime::{FlatParams, Group, Instance, Linker, MemberMut, OwnerMut, Prepared};
use pirn_wasi::{WasiCtx, WasiCtxBuilder};

/// The host's data of an instance, or of a group of instances.
pub(crate) struct Data {
    /// The pointer of the embedder.
    pub(crate) host: Pointer,
    /// The context of WASI. Made at its first use if the embedder gave none.
    wasi: Option<WasiCtx>,
    pub(crate) references: References,
    /// Owns the handle that host functions get.
    pub(crate) caller: CallerPlace<pirn_caller_t>,
}

/// A pointer of the embedder, which the library passes on and never reads. The pointer moves
/// between threads with its instance. An atomic pointer is `Send`, a raw pointer is not.
#[derive(Debug)]
pub(crate) struct Pointer(AtomicPtr<c_void>);

impl Pointer {
    pub(crate) fn new(pointer: *mut c_void) -> Self {
        Self(AtomicPtr::new(pointer))
    }

    pub(crate) fn get(&self) -> *mut c_void {
        self.0.load(Relaxed)
    }
}

/// A question of a guest, which its embedder answers.
pub(crate) struct Question {
    /// The number that the embedder gave to the host function.
    pub(crate) tag: u64,
    pub(crate) params: FlatParams,
    /// For each parameter, whether it has 32 bits.
    pub(crate) narrow: u32,
}

/// The answer to a question.
pub(crate) enum Answer {
    /// The result of the host function.
    Word(u64),
    /// The error that ends the guest's call.
    Error(Box<pirn_error_t>),
}

pub(crate) type Inst = Instance<Data, Question, Answer>;
pub(crate) type Grp = Group<Data, Question, Answer>;
pub(crate) type MemberGuest<'a> = MemberMut<'a, Data, Question, Answer>;
/// An instance that is alone or a member of a group.
pub(crate) type Guest<O> = Instance<Data, Question, Answer, O>;
/// The owner of an instance: see [`Guest`].
pub(crate) trait Owning:
    OwnerMut<Data = Data, Question = Question, Answer = Answer>
{
}

impl<O: OwnerMut<Data = Data, Question = Question, Answer = Answer>> Owning for O {}

pub(crate) type Link = Linker<Data, Question, Answer>;
pub(crate) type Prep = Prepared<Data, Question, Answer>;

impl Data {
    pub(crate) fn new(host: *mut c_void, wasi: Option<WasiCtx>) -> Self {
        Self {
            host: Pointer::new(host),
            wasi,
            references: References::new(),
            caller: CallerPlace::new(pirn_caller_t::new()),
        }
    }

    /// The context of WASI.
    pub(crate) fn wasi(&mut self) -> &mut WasiCtx {
        self.wasi
            .get_or_insert_with(|| WasiCtxBuilder::new().build())
    }
}
