//! [`Record`]: what the runtime keeps in a context, below the fields that generated code reads.

use super::HostEntry;
use super::arch::{Registers, SAVED_REGISTERS};
use crate::account::Account;
use crate::shared::SharedImports;
use core::mem::{offset_of, size_of};
use core::ptr;
use core::sync::atomic::{AtomicU8, Ordering};
use pirn_format::exit::TrapCode;
use pirn_format::layout::{CONTEXT_RUNTIME, Context, RUNTIME_WORDS};

/// Where one running call left the host's stack, and where its guest left.
///
/// The assembly of [`super::arch`] reads and writes it by the offsets below.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Activation {
    /// Stack pointer of the host while the guest runs.
    pub(crate) host_sp: u64,
    /// Stack pointer of the guest when an answer made it leave; 0 if it left otherwise, and may go on.
    pub(crate) guest_sp: u64,
    /// Callee-saved registers of the guest when an answer made it leave.
    pub(crate) guest_registers: [u64; SAVED_REGISTERS],
    /// Address of the gate: the guest is neither entered nor gone on with unless it is
    /// [`GO`](crate::stop::GO).
    pub(crate) gate: *const AtomicU8,
    /// Where to put the guest's registers when it is preempted; null if it cannot be.
    pub(crate) registers: *mut Registers,
    /// Where a signal made the guest leave, until it is reported.
    pub(crate) fault: Option<Fault>,
}

/// Where a signal made a guest leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// The trap that the signal told of; `None` if it was sent to stop the guest.
    pub(crate) code: Option<TrapCode>,
    /// Where it was.
    pub(crate) at: Position,
}

/// Where code was interrupted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// Program counter.
    pub(crate) pc: usize,
    /// Stack pointer.
    pub(crate) sp: usize,
    /// Frame pointer.
    pub(crate) fp: usize,
    /// Where a function that has only been entered returns to; 0 if that is on top of the stack.
    pub(crate) link: usize,
}

/// Offset of [`Activation::host_sp`].
pub(crate) const HOST_SP: usize = offset_of!(Activation, host_sp);
/// Offset of [`Activation::guest_sp`].
pub(crate) const GUEST_SP: usize = offset_of!(Activation, guest_sp);
/// Offset of [`Activation::guest_registers`].
pub(crate) const GUEST_REGISTERS: usize = offset_of!(Activation, guest_registers);

/// Offset of [`Record::hosts`] from `vmctx`.
pub(crate) const RECORD_HOSTS: i32 = CONTEXT_RUNTIME + offset_of!(Record, hosts) as i32;

/// Offset of [`Activation::gate`].
pub(crate) const GATE: usize = offset_of!(Activation, gate);

/// What the signal handler must know of one instance. Constant while a call runs.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Guest {
    /// Addresses of the module's text: start and end.
    pub(crate) text: [usize; 2],
    /// Address and bytes of the module's trap table.
    pub(crate) traps: [usize; 2],
    /// Addresses that accesses of the slot's memory can reach: start and end.
    pub(crate) memory: [usize; 2],
    /// The shared memories of the host's that the instance imports; null if there are none.
    pub(crate) shared: *const SharedImports,
    /// Addresses of the guard below the slot's stack: start and end.
    pub(crate) stack_guard: [usize; 2],
    /// Addresses of the slot's stack: start and end.
    pub(crate) stack: [usize; 2],
    /// The next instance that the running call can reach; null at the last.
    pub(crate) next: *const Guest,
}

/// Everything in [`Context::runtime`]: the runtime's own part of a context.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Record {
    /// State of the running call.
    pub(crate) activation: Activation,
    /// For the signal handler.
    pub(crate) guest: Guest,
    /// The entries of the instance's imports, for the routine that calls host functions: it is
    /// given the offset of one.
    pub(crate) hosts: *const HostEntry,
    /// Address of the descriptor of memory 0: the own one, or the owner's if it is imported; one of no memory if that is
    /// the host's, and shared.
    pub(crate) memory: u64,
    /// The same of the memory that the pointers of interfaces are offsets in.
    pub(crate) interface_memory: u64,
    /// The index of that memory.
    pub(crate) interface_index: u32,
    /// Position of the instance among those of its owner.
    pub(crate) member: u64,
    /// A byte that is 1 as long as the instance's memory is what it left in it. It lives as long as the
    /// region.
    pub(crate) mark: *const AtomicU8,
    /// Stamp that the host's copies of this instance's function references bear; 0 if there are none.
    pub(crate) stamp: u64,
    /// Fuel beyond what the context's own field holds; `None` if the module does not count.
    pub(crate) fuel_above: Option<u64>,
    /// The account of the slot, or of the first instance of the group. It lives as long as the region.
    pub(crate) account: *const Account,
    /// Whether the account is this instance's.
    pub(crate) account_state: AccountState,
}

/// What the account of a [`Record`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccountState {
    /// What an earlier instance of the slot left. It is cleared when something is first counted.
    Stale,
    /// The same. Once it is cleared, it also measures: this instance is measured, and has used
    /// nothing yet.
    StaleMeasured,
    /// What this instance has used.
    Open,
}

const _: () = assert!(size_of::<Record>() <= size_of::<[u64; RUNTIME_WORDS]>());
const _: () = assert!(size_of::<HostEntry>() == 16);
const _: () = assert!(offset_of!(Context, runtime) == 0 && offset_of!(Record, activation) == 0);

impl Record {
    /// The record of the instance whose context this is.
    #[inline]
    pub(crate) fn of(vmctx: *mut u8) -> *mut Self {
        vmctx.wrapping_offset(CONTEXT_RUNTIME as isize).cast()
    }

    /// A record for an instance that has not run.
    pub(crate) fn new(
        guest: Guest,
        memory: u64,
        (interface_index, interface_memory): (u32, u64),
        member: u64,
        mark: *const AtomicU8,
        account: *const Account,
    ) -> Self {
        Self {
            activation: Activation {
                host_sp: 0,
                guest_sp: 0,
                guest_registers: [0; SAVED_REGISTERS],
                gate: mark,
                registers: ptr::null_mut(),
                fault: None,
            },
            guest,
            hosts: ptr::null(),
            memory,
            interface_memory,
            interface_index,
            member,
            mark,
            stamp: 0,
            fuel_above: None,
            account,
            account_state: AccountState::Stale,
        }
    }
}

impl Record {
    /// Whether the instance's memory is what it left in it.
    ///
    /// # Safety
    ///
    /// The region that the instance is in must live.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn is_whole(&self) -> bool {
        // SAFETY: the caller's promise. Relaxed: the kernel wipes it before a child runs at all.
        unsafe { (*self.mark).load(Ordering::Relaxed) == 1 }
    }
}

impl Record {
    /// The account of the instance whose context this is, opened for it.
    ///
    /// # Safety
    ///
    /// `vmctx` must be an initialised context, whose guest does not run, and the region that the
    /// instance is in must live for `'a`.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn account<'a>(vmctx: *mut u8) -> &'a Account {
        // SAFETY: the caller's promise; the account is one of the region's, see `account`.
        unsafe {
            let record = Self::of(vmctx);
            let account = &*(*record).account;
            let state = (*record).account_state;
            if state != AccountState::Open {
                account.clear();
                if state == AccountState::StaleMeasured {
                    account.measure();
                }
                (*record).account_state = AccountState::Open;
            }
            account
        }
    }

    /// Has the account measure what the instance uses from now on. An account that is stale stays so
    /// until something is counted: an instance that uses nothing never touches it.
    ///
    /// # Safety
    ///
    /// As [`account`](Self::account).
    #[allow(unsafe_code)]
    pub(crate) unsafe fn measure(vmctx: *mut u8) {
        // SAFETY: as in `account`.
        unsafe {
            let record = &mut *Self::of(vmctx);
            match record.account_state {
                AccountState::Open if !(*record.account).is_measured() => {
                    (*record.account).measure();
                }
                AccountState::Open => (),
                _ => record.account_state = AccountState::StaleMeasured,
            }
        }
    }

    /// The account, if the instance has opened it. Nothing is written, so several threads may ask.
    ///
    /// # Safety
    ///
    /// As [`account`](Self::account).
    #[allow(unsafe_code)]
    pub(crate) unsafe fn open_account<'a>(vmctx: *mut u8) -> Option<&'a Account> {
        // SAFETY: as in `account`.
        unsafe {
            let record = &*Self::of(vmctx);
            (record.account_state == AccountState::Open).then(|| &*record.account)
        }
    }
}

impl Guest {
    /// The instances that can be reached from this one, this one first.
    ///
    /// # Safety
    ///
    /// Every `next` must be null or point to a `Guest` that outlives the iteration.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn chain<'a>(first: *const Self) -> impl Iterator<Item = &'a Self> {
        let mut next = first;
        core::iter::from_fn(move || {
            // SAFETY: the caller vouches for every link.
            let guest = unsafe { next.as_ref() }?;
            next = guest.next;
            Some(guest)
        })
    }
}

impl Guest {
    /// Whether its accesses of memory can reach an address.
    ///
    /// # Safety
    ///
    /// The instance must be one that the running call can reach.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn reaches(&self, address: usize) -> bool {
        // SAFETY: those that the instance imports, which it keeps.
        let shared = unsafe { self.shared.as_ref() };
        within(self.memory, address) || shared.is_some_and(|shared| shared.reach(address))
    }
}

/// Whether an address lies in a range of addresses, start and end.
pub(crate) fn within(range: [usize; 2], address: usize) -> bool {
    range[0] <= address && address < range[1]
}

/// No further instance.
pub(crate) const LAST: *const Guest = ptr::null();
