//! The system refuses calls while a slot is reset, changes its module, or grows: whatever remains
//! half done, the next instance finds the state of its snapshot.

use super::common::random::Random;
use super::common::{self, campaign::share};
use super::tenants::{GUEST, LARGE, Warm, sum};
use pirn_runtime::{Linker, Module, Region, Reset, Value};

// `_IOWR(0xaa, ...)` of ioctl_userfaultfd(2).
const UFFDIO_REGISTER: u32 = 0xc020_aa00;
const UFFDIO_COPY: u32 = 0xc028_aa03;
const UFFDIO_WRITEPROTECT: u32 = 0xc018_aa06;

/// System calls, each with the second argument of the calls that fail, if not all do.
const CALLS: [(&str, i64, Option<u32>); 9] = [
    ("madvise", libc::SYS_madvise, None),
    ("mprotect", libc::SYS_mprotect, None),
    ("mmap", libc::SYS_mmap, None),
    ("memfd_create", libc::SYS_memfd_create, None),
    ("register", libc::SYS_ioctl, Some(UFFDIO_REGISTER)),
    ("copy", libc::SYS_ioctl, Some(UFFDIO_COPY)),
    ("protect", libc::SYS_ioctl, Some(UFFDIO_WRITEPROTECT)),
    ("scan", libc::SYS_ioctl, Some(0xc060_6610)),
    ("ioctl", libc::SYS_ioctl, None),
];

#[test]
fn a_system_call_that_fails_leaves_nothing_of_a_tenant() {
    for reset in common::resets() {
        common::exited_with(&format!("failing {reset}"), 0);
    }
}

/// What an instance does before it ends.
fn spoil(instance: &mut pirn_runtime::Instance<()>, random: &mut Random) {
    let bytes = instance.memory().len() as u64;
    // Rarely so many pages that the slot forgets which.
    let writes = match random.below(12) {
        0 => 2000,
        _ => random.below(60),
    };
    for _ in 0..writes {
        let at = random.below(bytes - 8) as i32;
        let grown = (random.below(4) == 0).into();
        // On a thread whose system calls fail, the guest may trap.
        let _ = instance.call_values("spoil", &[Value::I32(at), Value::I32(grown)]);
    }
}

/// In a child process of its own: see [`case`](super::case).
pub(super) fn calls(reset: Reset) {
    let snapshots = Snapshots::new(reset);
    let mut random = Random(3);
    // Resets that failed, and slots that were lost.
    let mut failures = 0;
    for (name, call, argument) in CALLS {
        let (mut region, mut warm) = setup(reset, &snapshots);
        for round in 0..share(120, 12) {
            if region.slots_free() == 0 {
                failures += region.describe().slots_lost();
                (region, warm) = setup(reset, &snapshots);
            }
            // Each instance is made here or there, and ends here or there.
            let (make_there, end_there) = (random.below(3) == 0, random.below(2) == 0);
            let warm = &warm[random.below(4) as usize];
            let check = |instance: &mut pirn_runtime::Instance<()>, must: bool| {
                match instance.call_values("sum", &[]).as_deref() {
                    Ok([Value::I64(found)]) => {
                        assert_eq!(*found, warm.sum, "{name} {round}");
                    }
                    // The system gives no page.
                    Err(_) if !must => {}
                    other => panic!("{name} {round}: {other:?}"),
                }
            };
            let mut instance = match make_there {
                true => there(call, argument, || {
                    let mut instance = warm.prepared.try_instantiate(()).ok()?;
                    check(&mut instance, false);
                    Some(instance)
                }),
                false => {
                    let made = warm.prepared.try_instantiate(());
                    let mut instance = made.expect("the slot is free");
                    check(&mut instance, true);
                    Some(instance)
                }
            };
            let seed = random.u64();
            if let Some(instance) = &mut instance {
                spoil(instance, &mut Random(seed));
            }
            match end_there {
                true => there(call, argument, || {
                    if let Some(instance) = &mut instance {
                        spoil(instance, &mut Random(seed + 1));
                    }
                    drop(instance);
                }),
                false => drop(instance),
            }
        }
        failures += region.describe().resets_failed();
    }
    assert!(failures > 0, "no call failed");
}

/// Snapshots of three sizes, taken once in each process, and the bytes of the last one.
struct Snapshots {
    taken: [Warm; 3],
    saved: Vec<u8>,
}

impl Snapshots {
    fn new(reset: Reset) -> Self {
        let (region, module) = (super::tenants::region(reset, 1), common::wat(GUEST));
        let taken = [2, 20, LARGE].map(|pages| Warm::new(&region, &module, pages));
        let saved = taken[2].prepared.module().to_bytes();
        let saved = saved.expect("it can be saved");
        Self { taken, saved }
    }
}

/// A new region with the three snapshots, and with the last one opened from its bytes.
fn setup(reset: Reset, snapshots: &Snapshots) -> (Region, [Warm; 4]) {
    let region = super::tenants::region(reset, 1);
    let prepare = |module: &Module, sum| Warm {
        prepared: region.prepare(module, &Linker::new()).expect("it links"),
        sum,
    };
    let taken = snapshots.taken.each_ref();
    let [small, middle, large] = taken.map(|warm| prepare(warm.prepared.module(), warm.sum));
    let saved = Module::from_bytes(&snapshots.saved).expect("it opens");
    let saved = prepare(&saved, large.sum);
    let mut instance = middle.instance();
    assert_eq!(sum(&mut instance), middle.sum);
    drop(instance);
    (region, [small, middle, large, saved])
}

/// Runs on a thread whose calls of this kind fail.
fn there<R: Send>(call: i64, argument: Option<u32>, run: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            // The thread has its alternate signal stack already.
            let region = Region::builder().slots(1).build().expect("a region");
            drop(region);
            common::refuse(call, argument, libc::ENOMEM);
            run()
        });
        thread.join().expect("it ends")
    })
}
