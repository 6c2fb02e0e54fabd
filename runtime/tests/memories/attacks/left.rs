//! Attacks that leave data in a memory for the slot's next instance.

use super::*;
use crate::common::values::Lend as _;

/// The host's data of an instance.
#[derive(Debug, Default)]
struct Data {
    switch: Option<KillSwitch>,
}

/// The ways in which an instance ends, by number.
const ENDS: [&str; 9] = [
    "return",
    "trap",
    "outside",
    "error",
    "panic",
    "killed",
    "late",
    "suspended",
    "nothing",
];

/// A guest that attacks its slot. Its memories have these initial pages.
struct Tenant {
    pages: &'static [usize],
    mark: u8,
    prepared: Prepared<Data>,
    run: TypedFunc<i32, ()>,
    /// A variant whose start function performs the attack and traps.
    failing: Prepared<Data>,
}

fn tenant_text(pages: &[usize], mark: u8, start: bool) -> String {
    let mut text = String::from(
        r#"(module (import "h" "end" (func $end (param i32))) (import "h" "wait" (func $wait))"#,
    );
    let mut dirty = String::new();
    let mut grow = String::new();
    for (memory, pages) in pages.iter().enumerate() {
        text += &format!(
            r#"(memory (export "{memory}") {pages} 8)
               (func (export "load{memory}") (param i32) (result i32) (i32.load8_u {memory} (local.get 0)))"#
        );
        if *pages > 0 {
            text += &format!(
                r#"(data (memory {memory}) (i32.const {}) "{}")"#,
                100 + memory,
                initial(mark, memory)
            );
        }
        grow += &format!("(drop (memory.grow {memory} (i32.const {GROWN})))");
        dirty += &format!(
            "(memory.fill {memory} (i32.const 0) (i32.const {mark}) (i32.shl (memory.size {memory}) (i32.const 16)))"
        );
    }
    let last = pages.len() - 1;
    text += &format!(
        r#"(func $grow (export "grow") {grow})
           (func $dirty (export "dirty") (call $grow) {dirty})
           (func (export "run") (param i32)
             (call $dirty)
             (if (i32.eq (local.get 0) (i32.const 1)) (then unreachable))
             (if (i32.eq (local.get 0) (i32.const 2))
               (then (drop (i32.load {last} offset=80 (i32.shl (memory.size {last}) (i32.const 16))))))
             (if (i32.eq (local.get 0) (i32.const 6)) (then (loop $l (br $l))))
             (if (i32.eq (local.get 0) (i32.const 7)) (then (call $wait)))
             (call $end (local.get 0)))"#
    );
    if start {
        text += "(func $start (call $dirty) unreachable) (start $start)";
    }
    text + ")"
}

/// The text that the initial data of a memory contains.
fn initial(mark: u8, memory: usize) -> String {
    format!("tenant {mark} memory {memory}")
}

fn linker() -> Linker<Data> {
    let mut linker = Linker::new();
    let end = |caller: Caller<'_, Data>, end: i32| match ENDS[end as usize] {
        "error" => Err(HostError::message("told")),
        "panic" => panic_any("as asked"),
        "killed" => {
            let switch = caller.data().switch.as_ref();
            switch.expect("it has one").kill().expect("it is there");
            Ok(())
        }
        _ => Ok(()),
    };
    linker.func("h", "end", end).expect("it is free");
    linker
        .func_async("h", "wait", |_: Caller<'_, Data>, ()| {
            Box::pin(pending::<()>())
        })
        .expect("it is free");
    linker
}

impl Tenant {
    fn new(region: &Region, pages: &'static [usize], mark: u8) -> Self {
        let modules = [false, true].map(|start| common::wat(&tenant_text(pages, mark, start)));
        Self::of(region, &modules, pages, mark)
    }

    /// Takes both variants, compiled.
    fn of(region: &Region, modules: &[Module; 2], pages: &'static [usize], mark: u8) -> Self {
        let linker = linker();
        let [prepared, failing] = modules
            .each_ref()
            .map(|module| region.prepare(module, &linker).expect("it fits"));
        Self {
            pages,
            mark,
            run: prepared.func("run").expect("it is exported"),
            prepared,
            failing,
        }
    }

    /// Creates an instance, and checks its initial content before and after it grows.
    fn enter(&self, what: &str) -> Instance<Data> {
        let instance = self.prepared.try_instantiate(Data::default());
        self.entered(instance.expect("a slot is free"), what)
    }

    fn entered(&self, mut instance: Instance<Data>, what: &str) -> Instance<Data> {
        for grown in [0, GROWN] {
            for (memory, pages) in self.pages.iter().enumerate() {
                let mut expected = vec![0; (pages + grown) * PAGE];
                if *pages > 0 {
                    let data = initial(self.mark, memory);
                    expected[100 + memory..][..data.len()].copy_from_slice(data.as_bytes());
                }
                let name = memory.to_string();
                let found = instance.exported_memory(&name).expect("it is exported");
                assert!(
                    found.as_slice() == expected,
                    "{what}: memory {memory} of {:?} with {grown} more",
                    self.pages
                );
                for outside in [expected.len(), 8 * PAGE - 1, 8 * PAGE, (1 << 32) - 1] {
                    let load = instance.call_values(&format!("load{name}"), &[i32(outside as u32)]);
                    assert_eq!(
                        outcome(load),
                        Err(TrapCode::MemoryOutOfBounds),
                        "{what}: {memory} at {outside:#x}"
                    );
                }
            }
            if grown == 0 {
                instance.call_values("grow", &[]).expect("it grows");
            }
        }
        instance
    }

    /// Grows and fills all memories, and ends in the given way.
    fn leave(&self, mut instance: Instance<Data>, end: usize) {
        instance.data_mut().switch = Some(instance.kill_switch());
        let number = end as i32;
        match ENDS[end] {
            "panic" => {
                let ended = instance.call(&self.run, number);
                assert!(matches!(ended, Err(CallError::Panic(_))), "{ended:?}");
            }
            "late" => {
                let limited = instance.deadline(Duration::from_millis(1));
                let ended = limited.call_values("run", &[Value::I32(number)]);
                assert!(matches!(ended, Err(CallError::Deadline(_))), "{ended:?}");
            }
            "suspended" => {
                let mut call = pin!(instance.call_async(&self.run, number));
                let polled = call.as_mut().poll(&mut Context::from_waker(&noop_waker()));
                assert!(polled.is_pending(), "{polled:?}");
            }
            "nothing" => {
                for memory in 0..self.pages.len() {
                    let memory = instance.exported_memory_mut(&memory.to_string());
                    memory
                        .expect("it is exported")
                        .as_mut_slice()
                        .fill(self.mark);
                }
            }
            "return" => instance.call(&self.run, number).expect("it returns"),
            _ => drop(instance.call(&self.run, number).expect_err("it does not")),
        }
    }

    fn fail(&self) {
        let failed = self.failing.try_instantiate(Data::default());
        let error = failed.expect_err("its start traps");
        assert!(matches!(error, InstantiateError::Start(_)), "{error}");
    }
}

#[test]
fn no_memory_keeps_data_however_an_instance_ends() {
    let shapes: [&[usize]; 6] = [&[1, 1], &[2, 1, 3, 0], &[0, 2], &[1], &[0], &[1, 0, 0, 5]];
    let mut mark = 0;
    let shapes = shapes.map(|pages| {
        mark += 1;
        let modules = [false, true].map(|start| common::wat(&tenant_text(pages, mark, start)));
        (modules, pages, mark)
    });
    for reset in common::resets() {
        let region = Region::builder().slots(1).memories(4).reset(reset);
        let region = region.memory_bytes_max(8 * PAGE).build().expect("a region");
        let tenants = shapes
            .each_ref()
            .map(|(modules, pages, mark)| Tenant::of(&region, modules, pages, *mark));
        for round in 0..shapes.len() * ENDS.len() * 2 {
            // In the slot, each guest follows itself and every other guest.
            let tenant = &tenants[(round / 2 + round / 12) % shapes.len()];
            let what = format!("{reset} round {round}");
            let instance = tenant.enter(&what);
            tenant.leave(instance, round % ENDS.len());
            if round % 5 == 0 {
                tenants[round % shapes.len()].fail();
            }
            assert_eq!(region.slots_free(), 1, "{what}");
        }
        assert_eq!(region.describe().resets_failed(), 0, "{reset}");
    }
}

#[test]
fn no_memory_of_a_group_keeps_data() {
    const OWNER: &str =
        r#"(module (memory (export "a") 1 4) (memory (export "b") 1 4) (memory (export "c") 0 4))"#;
    const USER: &str = r#"(module (import "o" "b" (memory 1)) (import "o" "c" (memory 0))
                 (memory (export "x") 1 4) (memory (export "y") 2 4)
      (func (export "dirty")
        (drop (memory.grow 0 (i32.const 2))) (drop (memory.grow 1 (i32.const 3)))
        (drop (memory.grow 2 (i32.const 2))) (drop (memory.grow 3 (i32.const 1)))
        (memory.fill 0 (i32.const 0) (i32.const 1) (i32.const 0x30000))
        (memory.fill 1 (i32.const 0) (i32.const 2) (i32.const 0x30000))
        (memory.fill 2 (i32.const 0) (i32.const 3) (i32.const 0x30000))
        (memory.fill 3 (i32.const 0) (i32.const 4) (i32.const 0x30000))
        (i32.store 3 (i32.const 0x30000) (i32.const 0))))"#;
    let [owner, user] = [OWNER, USER].map(common::wat);
    for reset in common::resets() {
        let region = Region::builder().slots(2).memories(3).reset(reset);
        let region = region.build().expect("a region");
        for _ in 0..4 {
            let mut group = Group::new(&region, ());
            let owner = group.instantiate(&owner, &Linker::new()).expect("it fits");
            group.name("o", owner);
            let user = group.instantiate(&user, &Linker::new()).expect("it fits");
            for (member, name, pages) in [
                (owner, "a", 1),
                (owner, "b", 1),
                (owner, "c", 0),
                (user, "x", 1),
                (user, "y", 2),
            ] {
                let lent = group.at(member);
                let memory = lent.exported_memory(name).expect("it is exported");
                assert!(memory.as_slice() == vec![0; pages * PAGE], "{reset} {name}");
            }
            let ended = outcome(group.lend(user).call_values("dirty", &[]));
            // The last store is directly past the end: the memory has 3 of its 4 pages.
            assert_eq!(ended, Err(TrapCode::MemoryOutOfBounds), "{reset}");
            let lent = group.at(owner);
            let memory = lent.exported_memory("b").expect("it is exported");
            assert!(memory.as_slice() == vec![1; 3 * PAGE], "{reset}");
        }
    }
}

/// A child process finds its slots as clean as its parent does. Neither process finds bytes of the
/// other.
#[test]
fn a_child_and_its_parent_do_not_share_memories() {
    for reset in common::resets() {
        common::exited_with(&format!("forking - {reset}"), 0);
    }
}

pub(super) fn forking(reset: Reset) {
    let region = Region::builder().slots(2).memories(3).reset(reset);
    let region = region.memory_bytes_max(8 * PAGE).build().expect("a region");
    let tenants = [
        Tenant::new(&region, &[1, 2, 1], 1),
        Tenant::new(&region, &[0, 1], 2),
    ];
    for tenant in [&tenants[0], &tenants[1], &tenants[0]] {
        tenant.leave(tenant.enter("before"), 0);
    }
    let mut held = tenants[0].enter("held");
    held.call_values("dirty", &[]).expect("it runs");
    let child = setup::fork();
    if child == 0 {
        setup::limit_run_time();
        setup::child(AssertUnwindSafe(|| {
            for end in [0, 1, 2, 3] {
                for tenant in &tenants {
                    tenant.leave(tenant.enter("child"), end);
                }
            }
            // Other instances in the child must not find the bytes of the parent's instance.
            for memory in ["0", "1", "2"] {
                let memory = held.exported_memory(memory).expect("it is exported");
                assert!(memory.as_slice().iter().all(|byte| [0, 1].contains(byte)));
            }
            drop(held);
            let both = [(); 2].map(|()| tenants[1].enter("child, both"));
            for instance in both {
                tenants[1].leave(instance, 0);
            }
            let both = [(); 2].map(|()| tenants[0].enter("child, both again"));
            drop(both);
        }));
    }
    setup::ended_well(child);
    let memory = held.exported_memory("2").expect("it is exported");
    assert!(memory.as_slice().iter().all(|byte| *byte == 1), "{reset}");
    drop(held);
    let both = [(); 2].map(|()| tenants[0].enter("parent"));
    drop(both);
}

#[test]
fn a_slot_with_uncleanable_memories_is_not_reused() {
    for reset in common::resets() {
        for call in ["madvise", "mprotect"] {
            common::exited_with(&format!("failing {call} {reset}"), 0);
        }
    }
}

/// Instances fill their memories. Then the kernel refuses a system call that the reset needs.
pub(super) fn failing(call: &str, reset: Reset) {
    let region = Region::builder().slots(1).memories(3).reset(reset);
    let region = region.memory_bytes_max(8 * PAGE).build().expect("a region");
    let tenants = [
        Tenant::new(&region, &[1, 2, 1], 1),
        Tenant::new(&region, &[1, 4, 3], 2),
        Tenant::new(&region, &[0, 1], 3),
    ];
    for tenant in &tenants {
        tenant.leave(tenant.enter("before"), 0);
    }
    let instance = tenants[0].enter("before");
    let number = match call {
        "madvise" => libc::SYS_madvise,
        _ => libc::SYS_mprotect,
    };
    common::refuse(number, None, libc::ENOMEM);
    tenants[0].leave(instance, 0);
    let description = region.describe();
    if call == "mprotect" {
        // The memories did not grow, and the kernel refused to undo the partial change.
        assert_eq!(description.slots_lost(), 1, "{description}");
    } else {
        assert_eq!(description.resets_failed(), 1, "{description}");
    }
    for _ in 0..3 {
        for tenant in &tenants {
            let error = tenant.prepared.try_instantiate(Data::default());
            let error = error.expect_err("nothing can be cleaned").to_string();
            let expected = match region.describe().slots_lost() {
                0 => "the system gives no memory for a slot",
                _ => "the system refused to restore the memory of all 1 slots of the region",
            };
            assert!(error.starts_with(expected), "{error}");
            let lost = region.describe().slots_lost() as usize;
            assert_eq!(region.slots_free() + lost, 1, "{call} {reset}");
        }
    }
}

/// The kernel makes a part of the grown range accessible and refuses the rest.
#[test]
fn partially_refused_growth_is_undone() {
    for reset in common::resets() {
        for memory in 0..2 {
            common::exited_with(&format!("half {memory} {reset}"), 0);
        }
    }
}

/// After the fork, the kernel keeps the child's written mappings separate (anon_vma), so growth
/// changes several mappings. The child's limit of data permits less than the guest wants
/// (`RLIMIT_DATA`, getrlimit(2)).
pub(super) fn half(memory: usize, reset: Reset) {
    let region = Region::builder().slots(1).memories(2).reset(reset);
    let region = region.memory_bytes_max(1 << 30).build().expect("a region");
    let text = format!(
        r#"(module (memory (export "0") 1) (memory (export "1") 1)
          (func (export "grow") (param i32) (result i32) (memory.grow {memory} (local.get 0)))
          (func (export "load") (param i32) (result i32) (i32.load8_u {memory} (local.get 0)))
          (func (export "store") (param i32) (i32.store8 {memory} (local.get 0) (i32.const 7))))"#
    );
    let prepared = region.prepare(&common::wat(&text), &Linker::new());
    let prepared = prepared.expect("it fits");
    let fill = |instance: &mut Instance<()>| {
        let grown = instance.call_values("grow", &[i32(4)]);
        assert_eq!(outcome(grown), Ok(vec![i32(1)]));
        let mut memory = instance.exported_memory_mut(&memory.to_string());
        let memory = memory.as_mut().expect("it is exported").as_mut_slice();
        let fresh = memory.iter().all(|byte| *byte == 0);
        memory.fill(9);
        fresh
    };
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    assert!(fill(&mut instance));
    let child = setup::fork();
    if child == 0 {
        setup::limit_run_time();
        setup::child(AssertUnwindSafe(|| {
            drop(instance);
            let mut instance = prepared.try_instantiate(()).expect("the slot is free");
            let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
            let data = status.lines().find_map(|line| line.strip_prefix("VmData:"));
            let data = data.and_then(|data| data.trim().strip_suffix(" kB"));
            let data: u64 = data
                .and_then(|kib| kib.trim().parse().ok())
                .expect("a size");
            common::limit(libc::RLIMIT_DATA, (data << 10) + (8 << 20));
            let grown = instance.call_values("grow", &[i32(10_000)]);
            assert_eq!(outcome(grown), Ok(vec![Value::I32(-1)]), "{reset}");
            for at in [PAGE, 2 * PAGE, 5 * PAGE - 1, 5 * PAGE, 100 * PAGE] {
                for access in ["load", "store"] {
                    let ended = outcome(instance.call_values(access, &[i32(at as u32)]));
                    assert_eq!(ended, Err(TrapCode::MemoryOutOfBounds), "{reset} {at:#x}");
                }
            }
            drop(instance);
            let mut instance = prepared.try_instantiate(()).expect("the slot is free");
            assert!(fill(&mut instance), "{reset}: another's bytes");
        }));
    }
    setup::ended_well(child);
}
