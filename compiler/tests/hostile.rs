//! Small modules that try to use much compile time or memory. The compiler must compile each module
//! at all optimisation levels for both targets, or refuse it with the name of a limit.

use pirn_testing::campaign;

use campaign::{sampled, share};
use pirn_compiler::{CompileError, OptLevel, Options, compile, parse_text};
use pirn_format::cpu::Arch;

const I32: u8 = 0x7f;
/// The most parameters and results that a type may have.
const WIDE: usize = 1000;
/// The most locals that a function may have.
const LOCALS: u32 = 50_000;

fn leb(mut number: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [leb(items.len() as u64), items.concat()].concat()
}

fn section(id: u8, contents: &[u8]) -> Vec<u8> {
    [vec![id], leb(contents.len() as u64), contents.to_vec()].concat()
}

/// A function type with these numbers of parameters and results.
fn ty(params: usize, results: usize) -> Vec<u8> {
    let values = |count| [leb(count as u64), vec![I32; count]].concat();
    [vec![0x60], values(params), values(results)].concat()
}

/// A function with these locals and this code.
fn body(locals: u32, code: &[u8]) -> Vec<u8> {
    let locals = match locals {
        0 => vec![0],
        count => [vec![1], leb(count.into()), vec![I32]].concat(),
    };
    let body = [locals, code.to_vec(), vec![0x0b]].concat();
    [leb(body.len() as u64), body].concat()
}

/// A module of types, functions (each with the index of its type), and other sections by their ids.
fn module(types: &[Vec<u8>], funcs: &[(u8, Vec<u8>)], others: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let indices: Vec<_> = funcs.iter().map(|(ty, _)| vec![*ty]).collect();
    let bodies: Vec<_> = funcs.iter().map(|(_, body)| body.clone()).collect();
    let mut sections = vec![(1, list(types)), (3, list(&indices)), (10, list(&bodies))];
    sections.extend_from_slice(others);
    // The data count section, 12, is not used here. The tag section, 13, comes between memories and
    // globals.
    sections.sort_by_key(|(id, _)| if *id == 13 { (5, 13) } else { (*id, 0) });
    let sections = sections.iter().map(|(id, contents)| section(*id, contents));
    [
        b"\0asm\x01\0\0\0".to_vec(),
        sections.collect::<Vec<_>>().concat(),
    ]
    .concat()
}

/// A module with a memory and one function.
fn one(types: &[Vec<u8>], locals: u32, code: &[u8]) -> Vec<u8> {
    module(types, &[(0, body(locals, code))], &[(5, vec![1, 0, 1])])
}

/// An instruction with an index.
fn with(opcode: u8, index: u64) -> Vec<u8> {
    [vec![opcode], leb(index)].concat()
}

fn each(count: u64, code: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    (0..count).flat_map(code).collect()
}

/// Options that differ in the amount of compile work.
fn ways() -> Vec<Options> {
    let mut ways = vec![];
    for arch in [Arch::X86_64, Arch::Aarch64] {
        for level in [OptLevel::None, OptLevel::Speed] {
            let mut options = Options::new(arch);
            options.opt_level = level;
            ways.push(options);
        }
    }
    ways
}

/// Checks that a limit for one function refuses the module. The limit for the whole module is off.
fn refused(name: &str, wasm: &[u8], options: &Options, limit: &str) {
    let mut options = options.clone();
    options.work_per_byte = u64::MAX;
    match compile(wasm, &options) {
        Err(CompileError::FunctionLimit {
            func,
            what,
            found,
            limit: most,
        }) => {
            assert_eq!((func.as_str(), what), ("0", limit), "{name}");
            assert!(found > most, "{name}: {found} and {most}");
        }
        Err(other) => panic!("{name}: {other}"),
        Ok(_) => panic!("{name} is compiled"),
    }
}

const NODES: &str = "values, instructions and blocks of intermediate code";
const OPERANDS: &str = "operands of intermediate code";
const PAIRS: &str = "pairs of locals that its loops use";
const HELD: &str = "instructions across which its values are live";

/// An operator of two bytes can produce a thousand values. A function may contain a million such
/// operators.
#[test]
fn short_code_with_a_large_expansion_is_refused() {
    let wide = [ty(0, 0), ty(0, WIDE), ty(WIDE, 0), ty(WIDE, WIDE)];
    let zeros = [0x41, 0].repeat(WIDE);
    let drops = vec![0x1a; WIDE];
    let calls = module(
        &wide,
        &[
            (0, body(0, &[0x10, 1, 0x10, 2].repeat(10_000))),
            (1, body(0, &zeros)),
            (2, body(0, &[])),
        ],
        &[],
    );
    let inside = |inner: Vec<u8>| one(&wide, 1, &[zeros.clone(), inner, drops.clone()].concat());
    let joined = [
        vec![0x02, 1],
        [0x20, 0].repeat(WIDE),
        [0x20, 0, 0x0d, 0].repeat(100_000),
        vec![0x0b],
        drops.clone(),
    ];
    // Each branch to the end of a block brings another value for each local.
    let locals = [
        vec![0x02, 0x40],
        each(20_000, |n| {
            [vec![0x41, 1], with(0x21, n), vec![0x20, 0, 0x0d, 0]].concat()
        }),
        vec![0x0b],
        each(20_000, |n| [with(0x20, n), vec![0x1a]].concat()),
    ];
    let cases = [
        ("calls", calls, NODES),
        ("blocks", inside([0x02, 3, 0x0b].repeat(10_000)), NODES),
        ("loops", inside([0x03, 3, 0x0b].repeat(10_000)), NODES),
        (
            "ifs",
            inside([0x20, 0, 0x04, 3, 0x0b].repeat(10_000)),
            NODES,
        ),
        ("branches", one(&wide, 1, &joined.concat()), OPERANDS),
        ("locals", one(&wide, LOCALS, &locals.concat()), OPERANDS),
        (
            "indirect calls",
            module(
                &wide,
                &[(0, body(1, &[0x20, 0, 0x11, 0, 0].repeat(400_000)))],
                &[(4, vec![1, 0x70, 0, 10])],
            ),
            NODES,
        ),
    ];
    // The compiler refuses the code before the optimiser runs, so one level and target suffice.
    // By default, one case of each limit.
    for (name, wasm, limit) in sampled(&cases, 3, 1) {
        refused(name, wasm, &Options::default(), limit);
    }
}

/// A `try_table` with `count` copies of a clause.
fn try_table(count: u64, clause: &[u8], inner: &[u8]) -> Vec<u8> {
    let clauses = each(count, |_| clause.to_vec());
    [
        vec![0x1f, 0x40],
        leb(count),
        clauses,
        inner.to_vec(),
        vec![0x0b],
    ]
    .concat()
}

/// Three ways in which a `try_table` multiplies work. Each clause takes all values, each local may
/// come from each call, and the compiler searches the innermost `try` of each call.
#[test]
fn many_clauses_calls_and_locals_around_a_try_are_refused() {
    let types = [ty(0, 0), ty(WIDE, 0), ty(0, WIDE)];
    let guest = |locals, code: Vec<u8>| {
        let tags = (13, list(&[vec![0, 0], vec![0, 1]]));
        // The callee has a loop, so that it is not inlined.
        let funcs = [(0, body(locals, &code)), (0, body(0, &[0x03, 0x40, 0x0b]))];
        module(&types, &funcs, &[tags])
    };
    let call = [0x10, 1];
    // The validator permits at most ten thousand clauses.
    let clauses = [
        vec![0x02, 2],
        try_table(10_000, &[0, 1, 0], &call),
        vec![0x00, 0x0b],
        vec![0x1a; WIDE],
    ];
    let locals = [
        vec![0x02, 0x40],
        try_table(1, &[0, 0, 0], &call.repeat(20_000)),
        vec![0x0b],
        each(LOCALS.into(), |n| [with(0x20, n), vec![0x1a]].concat()),
    ];
    let options = Options::default();
    refused("clauses", &guest(1, clauses.concat()), &options, NODES);
    refused("locals", &guest(LOCALS, locals.concat()), &options, PAIRS);
    let depth = 100_000;
    let calls = [
        [0x02, 0x40].repeat(depth),
        // The compiler only translates the deep blocks. It refuses the clauses after them before
        // code generation.
        call.repeat(depth),
        [vec![0x41, 0, 0x0d], vec![0]].concat(),
        vec![0x0b; depth],
        vec![0x02, 2],
        try_table(10_000, &[0, 1, 0], &call),
        vec![0x00, 0x0b],
        vec![0x1a; WIDE],
    ];
    refused("deep", &guest(1, calls.concat()), &options, NODES);
}

/// The compiler refuses code with quadratic compile time before it does that work.
#[test]
fn code_with_quadratic_compile_time_is_refused() {
    let read = each(LOCALS.into(), |n| [with(0x20, n), vec![0x1a]].concat());
    // The innermost loop alone is below the limit, so the compiler does its work.
    let depth = 10;
    let loops = [[0x03, 0x40].repeat(depth), read.clone(), vec![0x0b; depth]];
    // The edges to the handler cost nothing here, because it uses no locals, but they count.
    let edges = [0x10, 1].repeat(4_000);
    let handler = [vec![0x02, 0x40], try_table(1, &[2, 0], &edges), vec![0x0b]];
    let one_loop = [handler.concat(), vec![0x03, 0x40], read, vec![0x0b]];
    for (name, code) in sampled(
        [
            ("loops", loops.concat()),
            ("a handler and a loop", one_loop.concat()),
        ],
        2,
        1,
    ) {
        // The callee has a loop, so that it is not inlined.
        let funcs = [(0, body(LOCALS, &code)), (0, body(0, &[0x03, 0x40, 0x0b]))];
        let wasm = module(&[ty(0, 0)], &funcs, &[]);
        refused(name, &wasm, &Options::default(), PAIRS);
    }
    // All values are loaded before the first one is stored. So they are live across at least the
    // square of their number, which is over the limit of 2^31.
    let count = 50_000;
    let held = [
        each(count, |n| {
            [vec![0x20, 0, 0x20, 0, 0x28, 2], leb(4 * n)].concat()
        }),
        [0x36, 2, 0].repeat(count as usize),
    ];
    let held = one(&[ty(0, 0)], 1, &held.concat());
    for arch in sampled(Arch::ALL, 2, 0) {
        let mut options = Options::new(arch);
        options.opt_level = OptLevel::None;
        refused("loads", &held, &options, HELD);
    }
}

/// Modules that are large or deep, but whose compile time is linear.
#[test]
fn large_and_deep_modules_compile() {
    let none = [ty(0, 0)];
    let empty = || (0, body(0, &[]));
    let many =
        |count: u64, item: &dyn Fn(u64) -> Vec<u8>| list(&(0..count).map(item).collect::<Vec<_>>());
    let name = |n: u64| {
        let name = n.to_string();
        [leb(name.len() as u64), name.into_bytes(), vec![0, 0]].concat()
    };
    let nested = 5_000;
    // By default, modules that are only large have a tenth of their items.
    let large = |count| share(count, 10);
    let (blocks, elements, bytes) = (large(500_000), large(500_000), large(32 << 20));
    let blocks = blocks as usize;
    let cases = [
        (
            "blocks",
            one(
                &none,
                0,
                &[[0x02, 0x40].repeat(nested), vec![0x0b; nested]].concat(),
            ),
        ),
        (
            "loops",
            one(
                &none,
                0,
                &[[0x03, 0x40].repeat(nested), vec![0x0b; nested]].concat(),
            ),
        ),
        (
            "ifs",
            one(
                &none,
                1,
                &[[0x20, 0, 0x04, 0x40].repeat(nested), vec![0x0b; nested]].concat(),
            ),
        ),
        (
            "unreachable blocks",
            one(
                &none,
                0,
                &[vec![0], [0x02, 0x40].repeat(blocks), vec![0x0b; blocks]].concat(),
            ),
        ),
        (
            "divisions",
            one(
                &none,
                1,
                &[vec![0x20, 0], [0x20, 0, 0x6d].repeat(4_000), vec![0x1a]].concat(),
            ),
        ),
        (
            "a table of branches",
            one(
                &none,
                1,
                &[[
                    vec![0x02, 0x40, 0x20, 0],
                    with(0x0e, 65_520),
                    vec![0; 65_521],
                    vec![0x0b],
                ]
                .concat()
                .repeat(10)]
                .concat(),
            ),
        ),
        (
            "locals",
            one(
                &none,
                LOCALS,
                &each(LOCALS.into(), |n| [vec![0x41, 1], with(0x21, n)].concat()),
            ),
        ),
        (
            "functions",
            module(&none, &vec![empty(); large(50_000) as usize], &[]),
        ),
        (
            "calls of each other",
            module(
                &none,
                &(1..large(20_000))
                    .map(|n| (0, body(0, &with(0x10, n).repeat(2))))
                    .chain([empty()])
                    .collect::<Vec<_>>(),
                &[],
            ),
        ),
        (
            "imports",
            module(
                &none,
                &[empty()],
                &[(2, many(large(20_000), &|_| vec![1, b'a', 1, b'b', 0, 0]))],
            ),
        ),
        (
            "exports",
            module(&none, &[empty()], &[(7, many(large(99_999), &name))]),
        ),
        (
            "globals",
            module(
                &none,
                &[empty()],
                &[(6, many(large(200_000), &|_| vec![I32, 1, 0x41, 0, 0x0b]))],
            ),
        ),
        (
            "constants of as many operators as they may have",
            module(
                &none,
                &[empty()],
                &[(
                    6,
                    many(20, &|_| {
                        [
                            vec![I32, 0, 0x41, 0],
                            [0x41, 1, 0x6a].repeat(8191),
                            vec![0x0b],
                        ]
                        .concat()
                    }),
                )],
            ),
        ),
        (
            "elements",
            module(
                &none,
                &[empty()],
                &[
                    (4, [vec![1, 0x70, 0], leb(elements)].concat()),
                    (
                        9,
                        list(&[[vec![0, 0x41, 0, 0x0b], many(elements, &|_| vec![0])].concat()]),
                    ),
                ],
            ),
        ),
        (
            "data",
            module(
                &none,
                &[empty()],
                &[
                    (5, [vec![1, 0], leb(512)].concat()),
                    (
                        11,
                        list(&[
                            [vec![0, 0x41, 0, 0x0b], leb(bytes), vec![1; bytes as usize]].concat(),
                        ]),
                    ),
                ],
            ),
        ),
    ];
    for (at, (name, wasm)) in cases.iter().enumerate() {
        for options in sampled(ways(), 4, at) {
            let object = compile(wasm, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(object.len() > 1000, "{name}");
        }
    }
}

/// The validator refuses a module before code generation, and the error has the validator's
/// message.
#[test]
fn limits_of_the_validator_are_reported_by_name() {
    let none = [ty(0, 0)];
    let cases = [
        ("locals", one(&none, LOCALS + 1, &[]), "too many locals"),
        (
            "parameters",
            module(&[ty(WIDE + 1, 0)], &[], &[]),
            "function params size is out of bounds",
        ),
        (
            "a body",
            one(&none, 0, &vec![0x01; 8_000_000]),
            "function body size",
        ),
        (
            "functions",
            [
                b"\0asm\x01\0\0\0".to_vec(),
                section(1, &list(&none)),
                section(3, &leb(1_000_001)),
            ]
            .concat(),
            "functions count",
        ),
        (
            "a memory",
            module(&none, &[], &[(5, [vec![1, 0], leb(65_537)].concat())]),
            "memory size",
        ),
    ];
    for (name, wasm, part) in cases {
        let error = compile(&wasm, &Options::default())
            .expect_err(name)
            .to_string();
        assert!(error.contains(part), "{name}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// Deeply nested text format.
#[test]
fn deeply_nested_text_is_parsed_or_refused() {
    let deep = 100_000;
    let blocks = format!(
        "(module (func {}{}))",
        "(block ".repeat(deep),
        ")".repeat(deep)
    );
    let wasm = parse_text(blocks.as_bytes()).expect("it is well-formed");
    assert!(wasm.len() > 3 * deep, "{} bytes", wasm.len());
    for text in [
        "(".repeat(deep),
        format!("(module {}", "(func ".repeat(deep)),
    ] {
        let error = parse_text(text.as_bytes()).expect_err("it has no end");
        assert!(matches!(error, CompileError::Text(_)), "{error}");
    }
}
