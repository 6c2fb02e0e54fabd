//! A test of each part of `std::thread` and `std::sync`, under many threads. `threads NAME` runs
//! the test NAME. It prints "NAME ok", or panics.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock};
use std::thread;
use std::time::Duration;

/// As many as `aotrun` allows beside the first.
const THREADS: usize = 64;
const ROUNDS: usize = 200;

/// Runs `run` with 0 to `THREADS - 1`, each on a thread, and joins them all.
fn together(run: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for index in 0..THREADS {
            let run = &run;
            let builder = thread::Builder::new().stack_size(64 << 10);
            builder
                .spawn_scoped(scope, move || run(index))
                .expect("room for a thread");
        }
    });
}

fn mutex() {
    let sum = Mutex::new(0);
    together(|_| (0..ROUNDS).for_each(|_| *sum.lock().unwrap() += 1));
    assert_eq!(sum.into_inner().unwrap(), THREADS * ROUNDS);
}

fn condvar() {
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    together(|index| {
        for _ in 0..4 {
            let turn = turn.lock().unwrap();
            let mut turn = changed
                .wait_while(turn, |turn| *turn % THREADS != index)
                .unwrap();
            *turn += 1;
            changed.notify_all();
        }
    });
    let turn = turn.lock().unwrap();
    assert_eq!(*turn, THREADS * 4);
    let (_turn, waited) = changed
        .wait_timeout(turn, Duration::from_millis(2))
        .unwrap();
    assert!(waited.timed_out());
}

fn barrier() {
    let (barrier, met, leaders) = (
        Barrier::new(THREADS),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    together(|_| {
        for round in 1..=20 {
            met.fetch_add(1, SeqCst);
            leaders.fetch_add(barrier.wait().is_leader().into(), SeqCst);
            assert_eq!(met.load(SeqCst), round * THREADS);
            barrier.wait();
        }
    });
    assert_eq!(leaders.into_inner(), 20);
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Counted(usize);

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(self.0, SeqCst);
    }
}

thread_local! {
    static PLAIN: Cell<usize> = const { Cell::new(7) };
    static DROPS: RefCell<Option<Counted>> = const { RefCell::new(None) };
}

fn thread_local() {
    together(|index| {
        assert_eq!(PLAIN.replace(index), 7);
        DROPS.set(Some(Counted(index)));
        thread::yield_now();
        assert_eq!(PLAIN.get(), index);
    });
    assert_eq!(PLAIN.get(), 7);
    // Destructors run after the scope was told that the thread is done.
    while DROPPED.load(SeqCst) != THREADS * (THREADS - 1) / 2 {
        thread::yield_now();
    }
}

fn once() {
    static ONCE: Once = Once::new();
    static LOCK: OnceLock<usize> = OnceLock::new();
    static LAZY: LazyLock<usize> = LazyLock::new(|| DROPPED.fetch_add(1, SeqCst));
    together(|index| {
        ONCE.call_once(|| {
            thread::sleep(Duration::from_millis(2));
            DROPPED.fetch_add(1, SeqCst);
        });
        assert!(ONCE.is_completed());
        LOCK.get_or_init(|| {
            DROPPED.fetch_add(1, SeqCst);
            index
        });
        assert!(*LAZY < 3);
    });
    assert_eq!(DROPPED.load(SeqCst), 3);
}

/// Many more threads than fit at the same time, whose handles are dropped.
fn detached() {
    let ended = Arc::new(AtomicUsize::new(0));
    let mut made = 0;
    while made < 20 * THREADS {
        let counter = Arc::clone(&ended);
        let builder = thread::Builder::new().stack_size(16 << 10);
        match builder.spawn(move || counter.fetch_add(1, SeqCst)) {
            Ok(handle) => {
                drop(handle);
                made += 1;
            }
            Err(_) => thread::yield_now(),
        }
    }
    while ended.load(SeqCst) != made {
        thread::yield_now();
    }
}

fn rwlock() {
    let pair = RwLock::new((0, 0));
    together(|index| {
        for round in 0..ROUNDS {
            if (round + index) % 8 == 0 {
                let mut pair = pair.write().unwrap();
                pair.0 += 1;
                pair.1 += 1;
            } else {
                let pair = pair.read().unwrap();
                assert_eq!(pair.0, pair.1);
            }
        }
    });
    assert_eq!(pair.into_inner().unwrap().0, THREADS * ROUNDS / 8);
}

fn channel() {
    let (sender, receiver) = mpsc::sync_channel(4);
    let receiver = Mutex::new(receiver);
    let sum = AtomicUsize::new(0);
    together(|index| {
        if index % 2 == 0 {
            (0..ROUNDS).for_each(|_| sender.send(index).unwrap());
        } else {
            for _ in 0..ROUNDS {
                sum.fetch_add(receiver.lock().unwrap().recv().unwrap(), SeqCst);
            }
        }
    });
    let even: usize = (0..THREADS).step_by(2).sum();
    assert_eq!(sum.into_inner(), even * ROUNDS);
}

fn park() {
    let handles: Vec<_> = (0..THREADS)
        .map(|index| {
            thread::spawn(move || {
                thread::park();
                index
            })
        })
        .collect();
    handles.iter().for_each(|handle| handle.thread().unpark());
    let sum: usize = handles
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .sum();
    assert_eq!(sum, THREADS * (THREADS - 1) / 2);
}

fn allocate() {
    let maps = Mutex::new(HashMap::new());
    together(|index| {
        let mut strings = vec![];
        for round in 0..ROUNDS {
            strings.push(format!("{index} {round}").repeat(round % 20));
            if round % 3 == 0 {
                maps.lock()
                    .unwrap()
                    .insert((index, round), strings.swap_remove(round % 2));
            }
        }
    });
    for ((index, _), string) in maps.into_inner().unwrap() {
        assert!(string.is_empty() || string.starts_with(&format!("{index} ")));
    }
}

/// One more thread than there is room for is an error.
fn limit() {
    let stop = Arc::new((Mutex::new(false), Condvar::new()));
    let mut handles = vec![];
    let error = loop {
        let stop = Arc::clone(&stop);
        let waits = move || {
            drop(
                stop.1
                    .wait_while(stop.0.lock().unwrap(), |stop| !*stop)
                    .unwrap(),
            )
        };
        match thread::Builder::new().stack_size(16 << 10).spawn(waits) {
            Ok(handle) => handles.push(handle),
            Err(error) => break error,
        }
    };
    assert_eq!(handles.len(), THREADS, "{error}");
    *stop.0.lock().unwrap() = true;
    stop.1.notify_all();
    handles
        .into_iter()
        .for_each(|handle| handle.join().unwrap());
}

/// A panic of any thread ends the program, because panics abort here.
fn panic() {
    together(|index| {
        assert_ne!(index, 40, "the fortieth thread panics");
        loop {
            thread::park();
        }
    });
}

fn exit() {
    together(|index| {
        if index == 40 {
            std::process::exit(19);
        }
        loop {
            thread::park();
        }
    });
}

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let tests: [(&str, fn()); 13] = [
        ("mutex", mutex),
        ("condvar", condvar),
        ("barrier", barrier),
        ("thread_local", thread_local),
        ("once", once),
        ("detached", detached),
        ("rwlock", rwlock),
        ("channel", channel),
        ("park", park),
        ("allocate", allocate),
        ("limit", limit),
        ("panic", panic),
        ("exit", exit),
    ];
    let Some((_, test)) = tests.iter().find(|(known, _)| *known == name) else {
        eprintln!("no test {name:?}");
        std::process::exit(2);
    };
    test();
    println!("{name} ok");
}
