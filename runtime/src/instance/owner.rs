//! How a call by a future borrows its owner: an [`Instance`] or a [`Group`].
//!
//! # Safety
//!
//! This file owns one fact. The members and the watches lie beside the host's data, never in it, so
//! a future that borrows the data borrows neither members nor watches.
#![allow(unsafe_code)]
// The methods of `Parts` name types of the crate, which only the crate uses.
#![expect(private_interfaces, reason = "as those of the trait")]

use super::callee::sealed::{MemberOf, Parts};
use super::callee::{CallOwner, Callee};
use super::group::Group;
use super::handle::Instance;
use crate::stop::Watch;
use core::ptr::NonNull;
use core::slice;

impl<T, Q, A> CallOwner for Instance<T, Q, A> {}

impl<T, Q, A> Parts for Instance<T, Q, A> {
    type Data = T;
    type Question = Q;
    type Answer = A;

    #[inline(always)]
    fn callee(&mut self) -> Callee<'_, T, Q, A> {
        self.callee()
    }

    #[inline(always)]
    unsafe fn members<'a>(this: NonNull<Self>) -> (&'a [MemberOf<Self>], usize) {
        // SAFETY: the caller borrows the instance, and only this field is accessed.
        (slice::from_ref(unsafe { &(*this.as_ptr()).member }), 0)
    }

    #[inline(always)]
    unsafe fn watch<'a>(this: NonNull<Self>) -> Option<&'a mut Watch> {
        // SAFETY: as in `members`, and the caller holds no reference to the member.
        unsafe { &mut (*this.as_ptr()).member }.watch.as_mut()
    }
}

impl<T: 'static, Q: 'static, A: 'static> CallOwner for Group<T, Q, A> {}

impl<T: 'static, Q: 'static, A: 'static> Parts for Group<T, Q, A> {
    type Data = T;
    type Question = Q;
    type Answer = A;

    fn callee(&mut self) -> Callee<'_, T, Q, A> {
        self.callee(self.suspended_at)
    }

    unsafe fn members<'a>(this: NonNull<Self>) -> (&'a [MemberOf<Self>], usize) {
        // SAFETY: the caller borrows the group, and only these fields are accessed.
        unsafe { (&(*this.as_ptr()).members, (*this.as_ptr()).suspended_at) }
    }

    unsafe fn watch<'a>(this: NonNull<Self>) -> Option<&'a mut Watch> {
        // SAFETY: the caller borrows the group, and only this field is accessed.
        unsafe { &mut (*this.as_ptr()).watch }.as_mut()
    }
}
