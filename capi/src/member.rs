//! [`SharedGroup`]: a group of instances that several handles share, and [`Member`]: one of them.
//!
//! # Safety
//!
//! This file owns one fact. The shared part of a group lives as long as a handle of the group or of
//! a member, or a function that uses it. The instances end with the group's own handle.
#![allow(unsafe_code)]

use crate::data::{Grp, MemberGuest};
use crate::error::{Fallible, PIRN_ERROR_STATE, argument, pirn_error_t};
use crate::exclusive::{Exclusive, Place, delete, with};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use pirn_runtime::MemberId;
use std::sync::Arc;

/// Identifies an instance of a group. 0 identifies no instance. Numbers of one group are invalid in
/// other groups.
pub type pirn_member_t = u64;

/// A group, and the ids of its instances.
pub(crate) struct Members {
    pub(crate) group: Grp,
    /// Distinguishes the numbers of this group from the numbers of other groups. After 2^32 groups,
    /// a serial repeats; then a number of another group may identify an instance of this group.
    serial: u32,
    /// The lowest 32 bits of a [`pirn_member_t`] are an index of this list, plus 1.
    ids: Vec<MemberId>,
}

impl Members {
    /// The number of the instance at an index of the list.
    fn number(&self, at: usize) -> pirn_member_t {
        // A region has fewer slots than a number has room for.
        (u64::from(self.serial) << 32) | (at as u64 + 1)
    }

    /// Adds an instance to the list, and returns its number.
    pub(crate) fn add(&mut self, id: MemberId) -> pirn_member_t {
        self.ids.push(id);
        self.number(self.ids.len() - 1)
    }

    /// The number of the instance with a name.
    pub(crate) fn named(&self, name: &str) -> Option<pirn_member_t> {
        let id = self.group.named(name)?;
        let at = self.ids.iter().position(|found| *found == id)?;
        Some(self.number(at))
    }

    /// The instance with a number.
    ///
    /// # Errors
    ///
    /// If the group has no instance with this number.
    pub(crate) fn member(&self, number: pirn_member_t) -> Fallible<MemberId> {
        let (serial, at) = ((number >> 32) as u32, (number as u32).wrapping_sub(1));
        let found = self.ids.get(at as usize).copied();
        let own = found.filter(|_| serial == self.serial);
        own.ok_or_else(|| {
            argument(format!(
                "`member` is {number:#x}, which is no instance of this group; pass a number that \
                 `pirn_group_add` wrote for it"
            ))
        })
    }
}

/// The part of a group that its handle and the handles of its instances share.
pub(crate) struct SharedGroup {
    /// `None` once the group was deleted.
    place: Place<Option<Members>>,
}

impl Exclusive for SharedGroup {
    type Inner = Option<Members>;
    const NAME: &'static str = "group";

    fn place(&self) -> Fallible<&Place<Self::Inner>> {
        Ok(&self.place)
    }

    fn deleted() -> Box<pirn_error_t> {
        pirn_error_t::text(
            PIRN_ERROR_STATE,
            "group was deleted, and its instances ended with it; delete the handles of its \
             instances",
        )
    }

    /// Ends the instances. The shared part lives on, because handles of instances lead to it.
    unsafe fn free(handle: *mut Self) {
        // SAFETY: the caller ensures that the handle is live, that its state is `DELETED`, and that
        // nothing uses the group.
        unsafe { (*handle).place.clear() };
    }
}

impl SharedGroup {
    pub(crate) fn new(group: Grp) -> Arc<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let members = Members {
            group,
            serial: NEXT.fetch_add(1, Relaxed),
            ids: vec![],
        };
        Arc::new(Self {
            place: Place::new(Some(members)),
        })
    }

    /// Runs `body` with the group. Takes a share: `body` may delete all handles.
    ///
    /// # Errors
    ///
    /// If the group is in use, poisoned or deleted, and the errors of `body`.
    pub(crate) fn with<R>(
        self: Arc<Self>,
        body: impl FnOnce(&mut Members) -> Fallible<R>,
    ) -> Fallible<R> {
        let body = |members: &mut Option<Members>| match members {
            Some(members) => body(members),
            None => Err(Self::deleted()),
        };
        // SAFETY: this function owns a share until `with` has returned.
        unsafe { with(Arc::as_ptr(&self).cast_mut(), body) }
    }

    /// Ends the group and its instances, or has the function that uses the group end them.
    pub(crate) fn delete(self: Arc<Self>) {
        // SAFETY: this function owns a share until `delete` has returned. A function that uses the
        // group owns another one.
        unsafe { delete(&self.place, Arc::as_ptr(&self).cast_mut()) };
    }
}

/// An instance of a group.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) group: Arc<SharedGroup>,
    pub(crate) id: MemberId,
}

impl Member {
    /// Runs `body` with the instance.
    ///
    /// # Errors
    ///
    /// As [`SharedGroup::with`].
    pub(crate) fn with<R>(
        self,
        body: impl FnOnce(&mut MemberGuest<'_>) -> Fallible<R>,
    ) -> Fallible<R> {
        let id = self.id;
        self.group
            .with(|members| body(&mut members.group.member_mut(id)?))
    }
}
