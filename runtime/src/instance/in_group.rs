//! [`InGroup`]: the owner of a member of a [`Group`], which lends the member as an instance.
//!
//! # Safety
//!
//! This file owns one fact. The members and the watch of a group lie beside the host's data, never
//! in it, so a future that borrows the data borrows neither.
#![allow(unsafe_code)]
#![expect(private_interfaces, reason = "only the crate calls `Parts`")]

use super::callee::Callee;
use super::group::{Group, MemberId};
use super::handle::Instance;
use super::owner::sealed::{MemberOf, Parts, PartsMut, StateOf};
use super::owner::{Owner, OwnerMut};
use super::suspended::Suspended;
use crate::error::NoMember;
use crate::stop::Watch;
use core::convert::Infallible;
use core::ptr::NonNull;

/// A member of a group, lent by [`Group::member`] with the methods of an instance that change
/// nothing.
pub type MemberRef<'a, T, Q = Infallible, A = Infallible> =
    Instance<T, Q, A, InGroup<&'a Group<T, Q, A>>>;

/// A member of a group, lent by [`Group::member_mut`] with the methods of an instance.
pub type MemberMut<'a, T, Q = Infallible, A = Infallible> =
    Instance<T, Q, A, InGroup<&'a mut Group<T, Q, A>>>;

impl<T: 'static, Q: 'static, A: 'static> Group<T, Q, A> {
    /// Lends an instance of the group, to read its state and to look up its functions.
    ///
    /// # Errors
    ///
    /// [`NoMember`] for an id of another group.
    pub fn member(&self, member: MemberId) -> Result<MemberRef<'_, T, Q, A>, NoMember> {
        let at = self.position(member)?;
        Ok(Instance::of(InGroup::new(self, at)))
    }

    /// Lends an instance of the group, to call it and to change its state.
    ///
    /// Limits of time apply to the whole call, whichever members of the group the call enters. The
    /// member cannot outlive the group:
    ///
    /// ```compile_fail,E0505
    /// # use pirn_runtime::{Group, MemberId, TypedFunc};
    /// # fn f(mut group: Group<()>, id: MemberId, func: &TypedFunc<(), ()>) {
    /// let mut member = group.member_mut(id).expect("an id of this group");
    /// drop(group);
    /// member.call(func, ());
    /// # }
    /// ```
    ///
    /// Only one member at a time can be called:
    ///
    /// ```compile_fail,E0499
    /// # use pirn_runtime::{Group, MemberId, TypedFunc};
    /// # fn f(mut group: Group<()>, ids: [MemberId; 2], func: &TypedFunc<(), ()>) {
    /// let mut one = group.member_mut(ids[0]).expect("an id of this group");
    /// let mut two = group.member_mut(ids[1]).expect("an id of this group");
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| one.call(func, ()));
    ///     two.call(func, ());
    /// });
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NoMember`] for an id of another group.
    pub fn member_mut(&mut self, member: MemberId) -> Result<MemberMut<'_, T, Q, A>, NoMember> {
        let at = self.position(member)?;
        Ok(Instance::of(InGroup::new(self, at)))
    }
}

/// The owner of a member of a [`Group`]: a borrow `G` of the group. A call, a limit, a kill or a
/// suspension of the member concerns the whole group.
#[derive(Debug)]
pub struct InGroup<G> {
    group: G,
    /// The index of the member, which is less than the number of members.
    at: usize,
}

impl<G> InGroup<G> {
    /// A borrow of a group as the owner of its member `at`, which must exist.
    pub(super) fn new(group: G, at: usize) -> Self {
        Self { group, at }
    }
}

macro_rules! in_group {
    ($($borrow:ty),*) => {$(
        impl<T, Q, A> Owner for InGroup<$borrow> {}

        impl<T, Q, A> Parts for InGroup<$borrow> {
            type Data = T;
            type Question = Q;
            type Answer = A;

            fn members(&self) -> (&[MemberOf<Self>], usize) {
                (&self.group.members, self.at)
            }

            fn state(&self) -> &StateOf<Self> {
                &self.group.store
            }

            fn suspended(&self) -> Option<&Suspended> {
                self.group.suspended.as_ref()
            }
        }
    )*};
}

in_group!(&Group<T, Q, A>, &mut Group<T, Q, A>);

impl<T, Q, A> OwnerMut for InGroup<&mut Group<T, Q, A>> {}

impl<T, Q, A> PartsMut for InGroup<&mut Group<T, Q, A>> {
    fn callee(&mut self) -> Callee<'_, T, Q, A> {
        self.group.callee(self.at)
    }

    unsafe fn members_only<'a>(this: NonNull<Self>) -> (&'a [MemberOf<Self>], usize) {
        // SAFETY: the caller borrows this value, which borrows the group. Only these fields are
        // accessed.
        unsafe {
            let members = &raw const (*this.as_ptr()).group.members;
            (&*members, (*this.as_ptr()).at)
        }
    }

    unsafe fn watch_only<'a>(this: NonNull<Self>) -> Option<&'a mut Watch> {
        // SAFETY: the caller borrows this value, which borrows the group. Only this field is
        // accessed.
        unsafe {
            let watch = &raw mut (*this.as_ptr()).group.stop.watch;
            (*watch).as_mut()
        }
    }
}
