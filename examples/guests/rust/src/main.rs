//! The Rust tour: uses everything that a command gets from its host and prints what it finds.
//!
//! `c/tour.c` and `go/tour/main.go` do the same: after the first line all three print equal bytes
//! for equal input (`fixtures/tour.expected.txt`). `README.md`, "The tour", describes the output,
//! its order and the reasons.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

const DATA: &str = "/data";
const INPUT: &str = "/data/input.txt";
const MISSING: &str = "/data/missing.txt";
const OUT: &str = "/data/out-rust.txt";
const OUT_PARTIAL: &str = "/data/out-rust.partial";

/// Largest exit code that every WASI host returns unchanged.
const EXIT_CODE_MAX: u8 = 125;

/// The error that ends the tour: the operation, its object, and the host's error.
struct Failure(String);

trait Doing<T> {
    fn doing(self, what: &str, to: &str) -> Result<T, Failure>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: &str, to: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("cannot {what} {to}: {error}")))
    }
}

/// Size, lines and hash of a byte stream: enough to distinguish two, and short to print.
struct Digest {
    bytes: usize,
    lines: usize,
    fnv1a: u64,
}

impl Digest {
    fn of(bytes: &[u8]) -> Self {
        let fnv1a = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        let feeds = bytes.iter().filter(|byte| **byte == b'\n').count();
        // A last line without a line feed counts too.
        let open_line = bytes.last().is_some_and(|byte| *byte != b'\n');
        Self {
            bytes: bytes.len(),
            lines: feeds + usize::from(open_line),
            fnv1a,
        }
    }

    fn print(&self, out: &mut Vec<u8>, name: &str) {
        let Self {
            bytes,
            lines,
            fnv1a,
        } = self;
        line(
            out,
            format!("{name}: {lines} lines, {bytes} bytes, fnv1a {fnv1a:016x}"),
        );
    }
}

fn main() -> ExitCode {
    let code = match exit_code() {
        Ok(code) => code,
        Err(Failure(message)) => {
            eprintln!("tour: {message}");
            return ExitCode::from(2);
        }
    };
    // The report is collected and written at once, also the part before a failure.
    let mut out = Vec::new();
    let seen = tour(&mut out);
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(&out)
        .and_then(|()| stdout.flush())
        .doing("write", "stdout");
    match seen.and(written) {
        Ok(()) => {
            eprintln!("tour: exit {code}");
            ExitCode::from(code)
        }
        Err(Failure(message)) => {
            eprintln!("tour: {message}");
            ExitCode::FAILURE
        }
    }
}

fn tour(out: &mut Vec<u8>) -> Result<(), Failure> {
    line(out, "language: Rust");
    let arguments = arguments(out);
    let greeting = environment(out);
    input(out)?;
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .doing("read", "stdin")?;
    let stdin = Digest::of(&bytes);
    stdin.print(out, "stdin");
    directory(out)?;
    let mut report = greeting;
    let tail = format!(
        "\narguments: {arguments}\nstdin: {} lines, {} bytes\n",
        stdin.lines, stdin.bytes
    );
    report.extend_from_slice(tail.as_bytes());
    write_back(out, &report)?;
    clock(out);
    Ok(())
}

fn arguments(out: &mut Vec<u8>) -> usize {
    // Omit args_os()[0], the runner's name for the program, which differs between runners.
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    line(out, format!("arguments: {}", arguments.len()));
    for (index, argument) in arguments.iter().enumerate() {
        out.extend_from_slice(format!("  {}: ", index + 1).as_bytes());
        line(out, argument.as_encoded_bytes());
    }
    arguments.len()
}

fn environment(out: &mut Vec<u8>) -> Vec<u8> {
    let greeting = env::var_os("PIRN_GREETING")
        .unwrap_or_else(|| "(none)".into())
        .into_encoded_bytes();
    out.extend_from_slice(b"greeting: ");
    line(out, &greeting);

    // Sorted as whole lines, as in the other tours: "A1=" comes before "A=".
    let mut variables: Vec<Vec<u8>> = env::vars_os()
        .map(|(name, value)| [name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat())
        .collect();
    variables.sort();
    line(out, format!("environment: {}", variables.len()));
    for variable in &variables {
        out.extend_from_slice(b"  ");
        line(out, variable);
    }
    greeting
}

fn input(out: &mut Vec<u8>) -> Result<(), Failure> {
    let input = fs::read(INPUT).doing("open", INPUT)?;
    Digest::of(&input).print(out, &format!("file {INPUT}"));
    out.extend_from_slice(b"  first line: ");
    line(
        out,
        input
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default(),
    );
    let about = fs::metadata(INPUT).doing("stat", INPUT)?;
    line(out, format!("  stat: {} bytes", about.len()));

    let missing = match File::open(MISSING) {
        Ok(_) => "there",
        Err(error) if error.kind() == ErrorKind::NotFound => "not found",
        Err(_) => "other error",
    };
    line(out, format!("file {MISSING}: {missing}"));
    Ok(())
}

fn directory(out: &mut Vec<u8>) -> Result<(), Failure> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(DATA).doing("open", DATA)? {
        let entry = entry.doing("list", DATA)?;
        let name = entry.file_name();
        // Skip the file that an earlier tour wrote here.
        if name.as_encoded_bytes().starts_with(b"out-") {
            continue;
        }
        let about = fs::metadata(entry.path()).doing("stat", &name.to_string_lossy())?;
        let about = if about.is_dir() {
            "directory".into()
        } else {
            format!("{} bytes", about.len())
        };
        entries.push((name, about));
    }
    entries.sort();
    line(out, format!("directory {DATA}: {} entries", entries.len()));
    for (name, about) in &entries {
        line(
            out,
            [b"  ", name.as_encoded_bytes(), b": ", about.as_bytes()].concat(),
        );
    }
    Ok(())
}

/// Writes a temporary file and renames it, so that the old file is replaced atomically.
fn write_back(out: &mut Vec<u8>, report: &[u8]) -> Result<(), Failure> {
    let mut file = File::create(OUT_PARTIAL).doing("create", OUT_PARTIAL)?;
    file.write_all(report).doing("write", OUT_PARTIAL)?;
    drop(file);
    fs::rename(OUT_PARTIAL, OUT).doing("rename", OUT_PARTIAL)?;

    let again = fs::read(OUT).doing("open", OUT)?;
    Digest::of(report).print(out, "written");
    line(
        out,
        format!(
            "  read back: {}",
            if again == report {
                "the same"
            } else {
                "different"
            }
        ),
    );
    Ok(())
}

fn clock(out: &mut Vec<u8>) {
    let before = Instant::now();
    thread::sleep(Duration::from_millis(2));
    // Expect half of the requested time: some hosts count whole milliseconds.
    let enough = before.elapsed() >= Duration::from_millis(1);
    let took = if enough { "its time" } else { "less than 1 ms" };
    line(out, format!("clock: a sleep of 2 ms took {took}"));
}

fn exit_code() -> Result<u8, Failure> {
    let Some(text) = env::var_os("PIRN_EXIT") else {
        return Ok(0);
    };
    let digits = text
        .to_str()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= 3);
    digits
        .and_then(|text| text.parse().ok())
        .filter(|code| *code <= EXIT_CODE_MAX)
        .ok_or_else(|| {
            let text = text.to_string_lossy();
            Failure(format!(
                "PIRN_EXIT is \"{text}\"; give a number from 0 to {EXIT_CODE_MAX}"
            ))
        })
}

fn line(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    out.extend_from_slice(text.as_ref());
    out.push(b'\n');
}
