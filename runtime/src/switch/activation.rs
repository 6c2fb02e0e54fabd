//! [`Record`]: the runtime's part of a context, below the fields that generated code reads.

use super::arch::{CALL_WORD, Registers, SAVED_REGISTERS};
use crate::account::Account;
use crate::value::{Cell, InstanceId};
use core::mem::{offset_of, size_of};
use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use pirn_format::exit::TrapCode;
use pirn_format::layout::{CONTEXT_RUNTIME, Context, RUNTIME_WORDS};

/// The state of one running call: where it left the host stack, and where its guest left.
///
/// The assembly of [`super::arch`] accesses the activation by the offsets below.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Activation {
    /// Stack pointer of the host while the guest runs.
    pub(crate) host_sp: u64,
    /// Stack pointer of the guest when an answer made the guest leave. It is 0 if the guest left in
    /// another way and can be resumed. It is also 0 if the guest has not been entered in a call
    /// that can be stopped.
    pub(crate) guest_sp: u64,
    /// Callee-saved registers of the guest when an answer made the guest leave.
    pub(crate) guest_registers: [u64; SAVED_REGISTERS],
    /// Address of the interrupt flag. The guest is entered or resumed only while the flag is
    /// [`GO`](super::interrupt_flag::GO).
    pub(crate) interrupt_flag: *const AtomicU8,
    /// Buffer for the registers of a preempted guest; null if the guest cannot be preempted.
    pub(crate) registers: *mut Registers,
    /// The place where a signal made the guest leave, until the runtime reports it.
    pub(crate) fault: Option<Fault>,
}

impl Activation {
    /// Forgets the exit of the last guest: the guest of the next call has not left yet.
    ///
    /// An activation stays in its slot, and the next instance of the slot uses it. Without this
    /// method, a call that is stopped before its guest is entered would get a backtrace of an
    /// earlier call.
    #[inline]
    pub(crate) fn forget_exit(&mut self) {
        self.guest_sp = 0;
        self.guest_registers = Default::default();
    }

    /// The `call` that was given to [`start`](super::start) or [`resume`](super::resume), and the
    /// stack pointer of the guest when it called the exit routine or the host call routine.
    ///
    /// # Safety
    ///
    /// The guest of this activation must have called the exit routine or the host call routine. The
    /// [`Answer`] or [`HostAnswer`] of that call must be running on this thread.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn exit(&self) -> (*mut (), usize) {
        let words = self.host_sp as *const usize;
        // SAFETY: the caller promises that the guest waits in the exit routine or the host call
        // routine. Then `host_sp` is the address of the words that the architecture's file draws.
        unsafe { (words.add(CALL_WORD).read() as *mut (), words.read()) }
    }
}

/// The place where a signal made a guest leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// The trap that the signal reported; `None` if the signal was sent to stop the guest.
    pub(crate) code: Option<TrapCode>,
    /// Position of the guest's code.
    pub(crate) at: Position,
}

/// Position of interrupted code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// Program counter.
    pub(crate) pc: usize,
    /// Stack pointer.
    pub(crate) sp: usize,
    /// Frame pointer.
    pub(crate) fp: usize,
    /// Return address of a function that has no frame yet; 0 if the address is on top of the stack.
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

/// Offset of [`Record::bulk_memory`] from `vmctx`.
pub(crate) const BULK_MEMORY: i32 = CONTEXT_RUNTIME + offset_of!(Record, bulk_memory) as i32;

/// Offset of [`Activation::interrupt_flag`].
pub(crate) const INTERRUPT_FLAG: usize = offset_of!(Activation, interrupt_flag);

/// Called on the host stack when a guest calls the exit routine, as `answer(vmctx, reason, cells,
/// call)`. `vmctx` is the context of the guest that calls, and `reason` is its request (see
/// [`pirn_format::exit`]). `call` was given to [`start`](super::start). The value at `call` begins
/// with the address of its activation.
///
/// Returns null to resume the guest. Otherwise returns the activation of the call, which then
/// leaves the guest. Does not unwind.
pub(crate) type Answer = unsafe extern "C" fn(
    vmctx: *mut u8,
    reason: u64,
    cells: *mut Cell,
    call: *mut (),
) -> *mut Activation;

/// Called on the host stack when a guest calls an import. Works like an [`Answer`], but takes this
/// entry instead of a reason.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct HostEntry {
    /// The function to call.
    pub(crate) answer: HostAnswer,
    /// The host function. `answer` knows its type.
    pub(crate) func: *const (),
}

/// Type of [`HostEntry::answer`].
pub(crate) type HostAnswer = unsafe extern "C" fn(
    vmctx: *mut u8,
    entry: *const HostEntry,
    cells: *mut Cell,
    call: *mut (),
) -> *mut Activation;

/// The data that the signal handler needs about one instance. The data is constant while a call
/// runs.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Guest {
    /// Addresses of the module's text: start and end.
    pub(crate) text: [usize; 2],
    /// Address and bytes of the module's trap table.
    pub(crate) traps: [usize; 2],
    /// Address range that accesses to the slot's memory can reach: start and end.
    pub(crate) memory: [usize; 2],
    /// Address ranges of the shared host memories that the instance imports: start and end of each
    /// range that an access can reach. Null if there are no such memories.
    pub(crate) shared: *const Vec<[usize; 2]>,
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
    /// Data for the signal handler.
    pub(crate) guest: Guest,
    /// Entries of the instance's imports. The routine that calls host functions takes the offset of
    /// an entry.
    pub(crate) hosts: *const HostEntry,
    /// Address of the descriptor of memory 0: the instance's own descriptor, or the owner's if the
    /// memory is imported. If memory 0 is a shared memory of the host, this is a descriptor of no
    /// memory.
    pub(crate) memory: u64,
    /// Address of the descriptor of memory 0, also if memory 0 is a shared memory of the host. The
    /// routines that copy and fill read it.
    pub(crate) bulk_memory: u64,
    /// Address of the descriptor of the memory that interface pointers refer to.
    pub(crate) interface_memory: u64,
    /// Index of the memory that interface pointers refer to.
    pub(crate) interface_index: u32,
    /// Number of nested calls that run: calls that host functions made through their
    /// [`Caller`](crate::Caller).
    pub(crate) nested_calls: u32,
    /// Position of the instance among the members of its owner.
    pub(crate) member: u64,
    /// A byte that is 1 while the instance's memory holds the instance's data. The byte lives as
    /// long as the region.
    pub(crate) mark: *const AtomicU8,
    /// Instance id in the host's copies of this instance's function references; 0 if there are no
    /// copies. Several threads that share the instance may try to create the id at the same time.
    pub(crate) instance_id: AtomicU64,
    /// Fuel beyond the amount in the context's own field; `None` if the module does not count fuel.
    pub(crate) fuel_above: Option<u64>,
    /// The account of the slot, or of the first instance of the group. The account lives as long as
    /// the region.
    pub(crate) account: *const Account,
    /// Whether the account holds the data of this instance.
    pub(crate) account_state: AccountState,
    /// Whether the running host function is async. An async function cannot make nested calls.
    pub(crate) in_async_host: bool,
    /// Whether the last nested call, or the last look-up for a nested call, failed.
    pub(crate) nested_failed: bool,
    /// Whether a call of the instance has ended with an error, or was cancelled.
    pub(crate) has_failed: bool,
    /// The shared host memories that the instance imports; null if there are no such memories. Only
    /// `SharedImports` knows the type.
    pub(crate) shared_memories: *const (),
}

/// State of the account of a [`Record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccountState {
    /// The account holds the data of an earlier instance of the slot. The first count clears the
    /// account.
    Stale,
    /// As `Stale`, and measurement is on: when the account is cleared, the account also starts to
    /// measure. This instance has used no resources yet.
    StaleMeasured,
    /// The account holds the data of this instance.
    Open,
}

const _: () = assert!(size_of::<Record>() <= size_of::<[u64; RUNTIME_WORDS]>());
const _: () = assert!(size_of::<HostEntry>() == 16);
const _: () = assert!(offset_of!(Context, runtime) == 0 && offset_of!(Record, activation) == 0);

impl Record {
    /// Returns the record in a context.
    #[inline]
    pub(crate) fn of(vmctx: *mut u8) -> *mut Self {
        vmctx.wrapping_offset(CONTEXT_RUNTIME as isize).cast()
    }

    /// Returns the record that begins with an activation.
    #[inline]
    pub(crate) fn with(activation: *mut Activation) -> *mut Self {
        activation.cast()
    }

    /// Creates the record of an instance that has not run.
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
                interrupt_flag: mark,
                registers: ptr::null_mut(),
                fault: None,
            },
            guest,
            hosts: ptr::null(),
            memory,
            bulk_memory: memory,
            interface_memory,
            interface_index,
            nested_calls: 0,
            member,
            mark,
            instance_id: AtomicU64::new(0),
            fuel_above: None,
            account,
            account_state: AccountState::Stale,
            in_async_host: false,
            nested_failed: false,
            has_failed: false,
            shared_memories: ptr::null(),
        }
    }
}

impl Record {
    /// Whether the instance's memory still holds the instance's data.
    ///
    /// # Safety
    ///
    /// The region of the instance must be alive.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn is_whole(&self) -> bool {
        // SAFETY: the caller promises that the region lives, and with it the byte. Relaxed: the
        // kernel wipes the byte before a child process runs any code.
        unsafe { (*self.mark).load(Ordering::Relaxed) == 1 }
    }
}

impl Record {
    /// The id of an instance. If there is no id, it is created now. Threads that call this function
    /// at the same time get the same id.
    ///
    /// # Safety
    ///
    /// `vmctx` must be the context of an initialised instance that does not run.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn instance_id(vmctx: *mut u8) -> InstanceId {
        // SAFETY: the caller ensures that the context is initialised and its instance does not run.
        let place = unsafe { &(*Self::of(vmctx)).instance_id };
        // Relaxed: the id publishes no other data. All threads agree on the order of the changes of
        // one word, and the word changes only once.
        match place.load(Ordering::Relaxed) {
            0 => Self::create_instance_id(place),
            id => InstanceId(id),
        }
    }

    /// Creates the id of an instance, unless another thread has just created it.
    #[cold]
    fn create_instance_id(place: &AtomicU64) -> InstanceId {
        let fresh = InstanceId::fresh();
        let created = place.compare_exchange(0, fresh.0, Ordering::Relaxed, Ordering::Relaxed);
        created.map_or_else(InstanceId, |_| fresh)
    }
}

impl Record {
    /// Returns the account of the instance with this context. Before that, clears an account that
    /// holds data of an earlier instance.
    ///
    /// # Safety
    ///
    /// `vmctx` must be an initialised context whose guest does not run. The region of the instance
    /// must live for `'a`.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn account<'a>(vmctx: *mut u8) -> &'a Account {
        // SAFETY: the caller promises an initialised context. Its account belongs to the region,
        // which the caller promises lives for `'a`.
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

    /// Makes the account measure the instance's usage from now on. A stale account stays stale
    /// until the first count, so an instance that counts nothing never touches the account.
    ///
    /// # Safety
    ///
    /// As [`account`](Self::account).
    #[allow(unsafe_code)]
    pub(crate) unsafe fn measure(vmctx: *mut u8) {
        // SAFETY: the caller promises an initialised context, whose region and account live.
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

    /// Returns the account if the instance has opened it. Writes nothing, so several threads may
    /// call this function at once.
    ///
    /// # Safety
    ///
    /// As [`account`](Self::account).
    #[allow(unsafe_code)]
    pub(crate) unsafe fn open_account<'a>(vmctx: *mut u8) -> Option<&'a Account> {
        // SAFETY: the caller promises an initialised context. The account lives as long as the
        // region, for `'a`.
        unsafe {
            let record = &*Self::of(vmctx);
            (record.account_state == AccountState::Open).then(|| &*record.account)
        }
    }
}

impl Guest {
    /// Iterates over the instances of a chain, beginning with `first`.
    ///
    /// # Safety
    ///
    /// Every `next` must be null or point to a `Guest` that outlives the iteration.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn chain<'a>(first: *const Self) -> impl Iterator<Item = &'a Self> {
        let mut next = first;
        core::iter::from_fn(move || {
            // SAFETY: the caller promises that every link is null or points to a live `Guest`.
            let guest = unsafe { next.as_ref() }?;
            next = guest.next;
            Some(guest)
        })
    }
}

impl Guest {
    /// Whether the guest's memory accesses can reach an address.
    ///
    /// # Safety
    ///
    /// The running call must be able to reach the instance.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn reaches(&self, address: usize) -> bool {
        // SAFETY: the instance imports these memories and keeps them alive.
        let shared = unsafe { self.shared.as_ref() };
        within(self.memory, address)
            || shared.is_some_and(|ranges| ranges.iter().any(|range| within(*range, address)))
    }
}

/// Whether an address lies in a range of addresses, start and end.
pub(crate) fn within(range: [usize; 2], address: usize) -> bool {
    range[0] <= address && address < range[1]
}

/// Marks the end of a chain of instances.
pub(crate) const LAST: *const Guest = ptr::null();
