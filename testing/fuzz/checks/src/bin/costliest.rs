//! Searches for the modules that cost the compiler most for their size, and prints the worst of
//! each kind. With the argument `components` it searches for components, each of which it compiles
//! in a child process with limits of time and memory. The search takes `PIRN_FUZZ_SECONDS` from the
//! seed `PIRN_FUZZ_SEED`. If `PIRN_FUZZ_WORST` is set, the program writes the modules or components
//! to that folder. It fails if one exceeds the time for its size. Times are meaningful only in a
//! release build.

#![forbid(unsafe_code)]

use pirn_fuzz_checks::cost::{
    ComponentShape, Found, Meter, Shape, Subject, measure, search, unlimited, ways,
};
use pirn_fuzz_checks::random::Random;
use pirn_fuzz_checks::{campaign, canary};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Limits of a child process: seconds of processor time, and bytes of address space.
const CHILD_SECONDS: u64 = 20;
const CHILD_BYTES: u64 = 4 << 30;
/// The argument of a child process, which the numbers of a shape follow, and of the search for
/// components.
const CHILD: &str = "measure";
const COMPONENTS: &str = "components";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        None => run(|shape: Shape, way| measure(shape, &options(way), Meter::NONE)),
        Some(COMPONENTS) => run(in_child),
        Some(CHILD) => child(&arguments[1..]).map(|found| {
            println!("{found}");
            ExitCode::SUCCESS
        }),
        Some(_) => Err(format!(
            "the arguments are {arguments:?}, not `{COMPONENTS}`"
        )),
    };
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

/// The options with an index. With the canary there is no limit.
fn options(way: usize) -> pirn_compiler::Options {
    match canary() {
        true => unlimited(),
        false => ways().swap_remove(way),
    }
}

/// Searches, and prints the worst of each kind.
fn run<S: Subject>(
    measure: impl FnMut(S, usize) -> Result<Found<S>, String>,
) -> Result<ExitCode, String> {
    let number = |name: &str| env::var(name).ok()?.parse().ok();
    let seconds = Duration::from_secs(number(campaign::SECONDS).unwrap_or(60));
    let mut random = Random::new(number(campaign::SEED).unwrap_or(1));
    let started = Instant::now();
    let mut tried = 0;
    let proceeds = |count| {
        tried = count;
        started.elapsed() < seconds
    };
    let judge = |found: &Found<S>| found.time_permille().max(found.bound_permille());
    let found = search(&mut random, ways().len(), proceeds, measure, judge)?;
    println!(
        "{tried} inputs; the worst of each kind, in thousandths of what one of that size may take:"
    );
    for found in &found {
        println!("{found}");
    }
    if let Some(folder) = env::var_os("PIRN_FUZZ_WORST") {
        for (at, found) in found.iter().enumerate() {
            let path = Path::new(&folder).join(format!("{at:02}.wasm"));
            std::fs::write(&path, found.shape.binary())
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(match found.iter().any(|found| judge(found) >= 1000) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Measures a component in a child process. One that ends the child by a limit counts as if it had
/// reached all limits.
fn in_child(shape: ComponentShape, way: usize) -> Result<Found<ComponentShape>, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let numbers = shape.numbers().map(|number| number.to_string());
    let output = Command::new(this)
        .arg(CHILD)
        .arg(way.to_string())
        .args(numbers)
        .output()
        .map_err(|error| error.to_string())?;
    let mut found = Found {
        shape,
        way,
        bytes: shape.binary().len() as u64,
        cpu_ns: CHILD_SECONDS * 1_000_000_000,
        code_bytes: 0,
        file_bytes: 0,
        heap_bytes: CHILD_BYTES,
        work: 0,
        refused: None,
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        found.refused = Some(format!("{}: {last}", output.status));
        return Ok(found);
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let mut words = said.trim_end().splitn(6, ' ');
    let mut number = || words.next()?.parse().ok();
    let mut next = || number().ok_or_else(|| format!("a child process printed {said:?}"));
    found.cpu_ns = next()?;
    found.code_bytes = next()?;
    found.file_bytes = next()?;
    found.heap_bytes = next()?;
    found.work = next()?;
    found.refused = words.next().map(str::to_owned);
    Ok(found)
}

/// In a child process: measures the shape with the numbers in the arguments, after the index of the
/// options.
fn child(arguments: &[String]) -> Result<String, String> {
    let limit = |resource, most| {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).map_err(|error| error.to_string())
    };
    limit(Resource::Cpu, CHILD_SECONDS)?;
    limit(Resource::As, CHILD_BYTES)?;
    limit(Resource::Core, 0)?;
    let numbers = arguments.iter().map(|number| number.parse().ok());
    let numbers: Option<Vec<u64>> = numbers.collect();
    let wrong =
        || format!("the arguments of `{CHILD}` are {arguments:?}, not the numbers of a shape");
    let numbers = numbers.ok_or_else(wrong)?;
    let (way, numbers) = numbers.split_first().ok_or_else(wrong)?;
    let numbers = numbers.try_into().map_err(|_| wrong())?;
    let shape = ComponentShape::of_numbers(numbers).ok_or_else(wrong)?;
    // The text is larger than the component, so write it before the first measurement.
    drop(shape.binary());
    // The pages of this program's own code that the compiler runs are no memory of the compiler.
    let memory = || memory_kib("VmHWM:").saturating_sub(memory_kib("RssFile:"));
    let before = memory();
    let found = measure(shape, &options(*way as usize), Meter::NONE)?;
    let memory_bytes = memory().saturating_sub(before) << 10;
    let line = format!(
        "{} {} {} {memory_bytes} {}",
        found.cpu_ns, found.code_bytes, found.file_bytes, found.work
    );
    Ok(match found.refused {
        Some(why) => format!("{line} {why}"),
        None => line,
    })
}

/// A number of `/proc/self/status`; 0 if there is none.
fn memory_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}
