//! [`Owner`]: whether an instance is alone in its slot or a member of a group.
//!
//! # Safety
//!
//! This file owns one fact. The member and its watch lie beside the host's data, never in it, so a
//! future that borrows the data borrows neither.
#![allow(unsafe_code)]
#![expect(private_interfaces, reason = "only the crate calls `Parts`")]

use super::callee::Callee;
use super::suspended::Suspended;
use crate::call::HostState;
use crate::stop::Watch;
use crate::store::member::Member;
use core::convert::Infallible;
use core::ptr::NonNull;
use core::slice;
use sealed::{MemberOf, Parts, PartsMut, StateOf};

/// The place of an instance's state. Only [`Alone`] and [`InGroup`](crate::InGroup) implement this
/// trait, so that each method of an [`Instance`](crate::Instance) exists once.
pub trait Owner: Parts {}

/// An [`Owner`] through which the instance can be called and changed.
///
/// Generic code is monomorphised for each owner, so the compiler knows that an instance alone has
/// one member and no watch of a group. With look-ups of members and watch in fields, a call by a
/// future took a tenth more time (bench `compare`, row "async call of null").
pub trait OwnerMut: Owner + PartsMut {}

#[expect(
    private_interfaces,
    reason = "the crate's types, which only the crate uses"
)]
pub(crate) mod sealed {
    use super::{Callee, HostState, Member, NonNull, Suspended, Watch};

    /// The parts of an owner.
    pub trait Parts {
        /// The host's data.
        type Data;
        /// A question of the guest.
        type Question;
        /// The host's answer.
        type Answer;

        /// The instances that a call can reach, and the index of this instance.
        fn members(&self) -> (&[MemberOf<Self>], usize);

        /// The host's state of these instances.
        fn state(&self) -> &StateOf<Self>;

        /// The suspended call of these instances, if there is one.
        fn suspended(&self) -> Option<&Suspended>;
    }

    /// The parts of an owner, to change them.
    pub trait PartsMut: Parts {
        /// Borrows the parts for a call of this instance.
        fn callee(&mut self) -> Callee<'_, Self::Data, Self::Question, Self::Answer>;

        /// As [`members`](Parts::members), while a future of a host function may borrow the host's
        /// data and the memories.
        ///
        /// # Safety
        ///
        /// The caller must borrow `this` mutably for `'a`.
        unsafe fn members_only<'a>(this: NonNull<Self>) -> (&'a [MemberOf<Self>], usize);

        /// The means to stop the call, while a future of a host function may borrow the host's data
        /// and the memories. `None` if the call cannot be stopped.
        ///
        /// # Safety
        ///
        /// The caller must borrow `this` mutably for `'a`, and must not borrow the members.
        unsafe fn watch_only<'a>(this: NonNull<Self>) -> Option<&'a mut Watch>;
    }

    /// The host's state of an owner.
    pub(crate) type StateOf<O> =
        HostState<<O as Parts>::Data, <O as Parts>::Question, <O as Parts>::Answer>;

    /// A member of an owner.
    pub(crate) type MemberOf<O> = Member<StateOf<O>>;
}

/// The owner of an instance that imports from no other instance: the instance has its state itself.
#[derive(Debug)]
pub struct Alone<T, Q = Infallible, A = Infallible> {
    pub(crate) member: Member<HostState<T, Q, A>>,
    pub(crate) store: HostState<T, Q, A>,
    /// The suspended call, if there is one.
    pub(crate) suspended: Option<Suspended>,
}

impl<T, Q, A> Owner for Alone<T, Q, A> {}
impl<T, Q, A> OwnerMut for Alone<T, Q, A> {}

impl<T, Q, A> Parts for Alone<T, Q, A> {
    type Data = T;
    type Question = Q;
    type Answer = A;

    #[inline(always)]
    fn members(&self) -> (&[MemberOf<Self>], usize) {
        (slice::from_ref(&self.member), 0)
    }

    #[inline(always)]
    fn state(&self) -> &StateOf<Self> {
        &self.store
    }

    #[inline(always)]
    fn suspended(&self) -> Option<&Suspended> {
        self.suspended.as_ref()
    }
}

impl<T, Q, A> PartsMut for Alone<T, Q, A> {
    #[inline(always)]
    fn callee(&mut self) -> Callee<'_, T, Q, A> {
        Callee {
            members: slice::from_mut(&mut self.member),
            root: 0,
            store: &mut self.store,
            suspended: &mut self.suspended,
            group: None,
        }
    }

    #[inline(always)]
    unsafe fn members_only<'a>(this: NonNull<Self>) -> (&'a [MemberOf<Self>], usize) {
        // SAFETY: the caller borrows the instance, and only this field is accessed.
        (slice::from_ref(unsafe { &(*this.as_ptr()).member }), 0)
    }

    #[inline(always)]
    unsafe fn watch_only<'a>(this: NonNull<Self>) -> Option<&'a mut Watch> {
        // SAFETY: the caller borrows the instance, and holds no reference to the member. Only this
        // field is accessed.
        unsafe { &mut (*this.as_ptr()).member }.watch.as_mut()
    }
}
