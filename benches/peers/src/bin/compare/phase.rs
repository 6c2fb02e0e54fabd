//! [`Phase`]: an operation that every engine executes, and its guest.

/// The measured operations.
#[derive(Debug, Clone, Copy)]
pub enum Phase {
    /// Instantiate, call a function that does nothing, tear down.
    CycleNull,
    /// The cycle of a guest that writes this many pages of 4 KiB.
    CyclePages(u32),
    /// The cycle of a guest with a dense image of 1 MiB, which writes four pages.
    CycleDense,
    /// The cycle of a guest that grows its memory by 1 MiB and writes 16 pages of it, as an
    /// allocating guest does.
    CycleGrow,
    /// The cycle of a C program that prints one line over WASI. The output is discarded.
    CycleHello,
    /// A call of an existing instance.
    Call,
    /// A call from the guest to the host and back.
    HostCall,
    /// A call that traps, by the name of its function.
    Trap(&'static str),
}

impl Phase {
    /// All phases, in the order of the table.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::CycleNull];
        all.extend([1, 8, 64, 1024].map(Self::CyclePages));
        all.extend([
            Self::CycleDense,
            Self::CycleGrow,
            Self::CycleHello,
            Self::Call,
            Self::HostCall,
        ]);
        all.extend(
            [
                "load_out_of_bounds",
                "unreachable",
                "divide_by_zero",
                "stack_overflow",
            ]
            .map(Self::Trap),
        );
        all
    }

    /// The name of its row.
    pub fn name(self) -> String {
        match self {
            Self::CycleNull => "cycle: null".to_owned(),
            Self::CyclePages(pages) => format!("cycle: writes {pages} pages"),
            Self::CycleGrow => "cycle: grows 1 MiB, writes 16 pages".to_owned(),
            Self::CycleHello => "cycle: C hello over WASI".to_owned(),
            Self::CycleDense => "cycle: 1 MiB image, writes 4 pages".to_owned(),
            Self::Call => "call and return, (i32, i32) -> i32".to_owned(),
            Self::HostCall => "guest to host and back".to_owned(),
            Self::Trap(name) => format!("trap: {}", name.replace('_', " ")),
        }
    }

    /// The argument of a guest function that writes a number of pages.
    pub fn pages(self) -> u32 {
        match self {
            Self::CyclePages(pages) => pages,
            Self::CycleGrow => 16,
            _ => 4,
        }
    }

    /// The guest in text or binary format, and the name of the function to call.
    pub fn guest(self) -> (Vec<u8>, &'static str) {
        let text = |text: &str| text.as_bytes().to_vec();
        match self {
            Self::CycleNull => (
                text(include_str!("../../../../../examples/guests/null.wat")),
                "run",
            ),
            Self::CyclePages(_) => (
                text(include_str!("../../../../../examples/guests/touch.wat")),
                "touch",
            ),
            Self::CycleDense => (dense().into_bytes(), "touch"),
            Self::CycleGrow => (text(GROW), "touch"),
            Self::CycleHello => (
                include_bytes!("../../../../../examples/guests/hello.wasm").to_vec(),
                "_start",
            ),
            Self::Call => (
                text(include_str!("../../../../../examples/guests/add.wat")),
                "add",
            ),
            Self::HostCall => (
                text(include_str!("../../../../../examples/guests/hostcalls.wat")),
                "calls",
            ),
            Self::Trap(name) => (
                text(include_str!("../../../../../examples/guests/traps.wat")),
                name,
            ),
        }
    }
}

/// `touch(pages)` writes to the pages by which it has grown the memory.
const GROW: &str = r#"(module (memory 1)
  (func (export "touch") (param $pages i32) (result i32)
    (local $at i32)
    (local.set $at (i32.shl (memory.grow (i32.const 16)) (i32.const 16)))
    (loop $again
      (i32.store8 (local.get $at) (i32.const 1))
      (local.set $at (i32.add (local.get $at) (i32.const 4096)))
      (br_if $again (local.tee $pages (i32.sub (local.get $pages) (i32.const 1)))))
    (local.get $at)))"#;

/// `touch(pages)` writes to an image of 1 MiB without a page of zeros.
fn dense() -> String {
    let data = "\\41".repeat(1 << 20);
    format!(
        r#"(module (memory 17) (data (i32.const 0) "{data}")
          (func (export "touch") (param $pages i32) (result i32)
            (local $page i32)
            (loop $again
              (i32.store8 (i32.mul (local.get $page) (i32.const 69632)) (local.get $page))
              (br_if $again (i32.lt_u
                (local.tee $page (i32.add (local.get $page) (i32.const 1)))
                (local.get $pages))))
            (local.get $page)))"#
    )
}
