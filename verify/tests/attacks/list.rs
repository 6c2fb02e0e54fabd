//! The lists of attacks. Each block names a function, code that replaces the function's code, and
//! the expected result of the verifier.
//!
//! ```text
//! == a load at an address that was not proven
//! features: all
//! refused: accesses
//! in: h, as builtin table.grow, traps
//!     mov rax, [rsi]; call plain; ret
//! hex: 488b06e8085a5a5ac3
//! ```
//!
//! A block with `guest: objects` replaces code of a guest with structs and arrays.
//!
//! A block without `features` is for a file whose header names only the baseline's features. A
//! block with `proven:` instead of `refused:` is a control: harmless code that resembles an attack.
//!
//! `in` names the function whose code the test replaces. Options follow the name:
//!
//! * `as entry F`, `as import F`, `as builtin NAME`, `as trap NUMBER`: the code table declares the
//!   function as an entry or import trampoline of F's type, a builtin's trampoline, or a trap stub;
//! * `traps`: each byte of the code has an entry in the trap table; without this option, no byte
//!   has an entry;
//! * `handler RETURN LANDING BYTES`: the code at offset LANDING catches exceptions of the call that
//!   returns to offset RETURN. The stack pointer at LANDING is BYTES below the frame pointer.
//!
//! The lines after `in` contain the code as assembly, and as hexadecimal digits. Assembly of x86_64
//! has Intel's syntax. In the assembly, the names of [`MARKS`] are numbers that the tests replace
//! by distances. A block with several pieces of code repeats the lines from `in` on for each piece.
//! The verifier must refuse only the last piece.
//!
//! [`MARKS`]: crate::attacks::guest::MARKS

use super::guest;
use pirn_format::cpu::Arch;
use pirn_format::exit::Builtin;
use pirn_format::traps::CodeKind;
use pirn_verify::Property;

/// One block of a list.
pub(crate) struct Attack {
    pub(crate) arch: Arch,
    pub(crate) name: String,
    /// Whether the file's header names all features that a header can name.
    pub(crate) has_all_features: bool,
    /// Whether the guest has structs and arrays.
    pub(crate) has_objects: bool,
    /// The property for which the verifier refuses the code. `None` for a control.
    pub(crate) refused: Option<Property>,
    pub(crate) pieces: Vec<Piece>,
}

/// Code that replaces the code of a function.
pub(crate) struct Piece {
    pub(crate) function: u32,
    /// The kind that the code table declares for the code, if the kind is no function.
    pub(crate) kind: Option<Override>,
    pub(crate) has_traps: bool,
    /// Return address and landing pad as offsets in the code, and the handler's `frame_bytes`.
    pub(crate) handler: Option<[u32; 3]>,
    pub(crate) assembly: String,
    pub(crate) code: Vec<u8>,
}

/// A kind that replaces a function's kind in the code table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Override {
    /// An entry trampoline of this function's type.
    Entry(u32),
    /// A trampoline of imports of this function's type.
    Import(u32),
    /// This kind.
    Kind(CodeKind),
}

/// Reads a list.
pub(crate) fn read(arch: Arch, text: &str) -> Vec<Attack> {
    let blocks = text.split("\n== ").skip(1);
    let attacks: Vec<Attack> = blocks.map(|text| block(arch, text)).collect();
    assert!(!attacks.is_empty(), "a list has attacks");
    attacks
}

fn block(arch: Arch, text: &str) -> Attack {
    let (name, lines) = text.split_once('\n').expect("a block has lines");
    let mut attack = Attack {
        arch,
        name: name.to_owned(),
        has_all_features: false,
        has_objects: false,
        refused: None,
        pieces: vec![],
    };
    let mut has_verdict = false;
    let mut key = "";
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let is_continued = line.starts_with(' ');
        let value = match line.split_once(':') {
            Some((name, value)) if !is_continued => {
                key = name;
                value.trim()
            }
            _ => line.trim(),
        };
        match key {
            "features" => attack.has_all_features = value == "all",
            "guest" => attack.has_objects = value == "objects",
            "refused" => attack.refused = Some(property(value)),
            "in" if !is_continued => attack.pieces.push(piece(value)),
            "in" | "hex" => {
                let piece = attack.pieces.last_mut().expect("`in` comes first");
                match key {
                    "hex" => piece.code.extend(bytes(value)),
                    _ => piece.assembly += &format!("{value} "),
                }
            }
            "proven" => {}
            _ => panic!("{name}: unknown line {line}"),
        }
        has_verdict |= matches!(key, "refused" | "proven");
    }
    assert!(has_verdict, "{name}: neither refused nor proven");
    let has_code = attack.pieces.iter().all(|piece| !piece.code.is_empty());
    assert!(has_code && !attack.pieces.is_empty(), "{name}: no code");
    attack
}

fn property(name: &str) -> Property {
    let mut all = Property::ALL.into_iter();
    let found = all.find(|property| property.name() == name);
    found.unwrap_or_else(|| panic!("no property is {name}"))
}

fn piece(line: &str) -> Piece {
    let mut options = line.split(", ");
    let function = guest::function(options.next().expect("a function"));
    let mut piece = Piece {
        function,
        kind: None,
        has_traps: false,
        handler: None,
        assembly: String::new(),
        code: vec![],
    };
    for option in options {
        let words: Vec<&str> = option.split(' ').collect();
        let number = |word: &str| word.parse::<u32>().expect("a number");
        match words[..] {
            ["traps"] => piece.has_traps = true,
            ["as", "entry", of] => piece.kind = Some(Override::Entry(guest::function(of))),
            ["as", "import", of] => piece.kind = Some(Override::Import(guest::function(of))),
            ["as", "builtin", name] => {
                let builtin = Builtin::ALL.iter().find(|builtin| builtin.name() == name);
                let builtin = *builtin.expect("a builtin") as u32;
                piece.kind = Some(Override::Kind(CodeKind::Builtin(builtin)));
            }
            ["as", "trap", code] => {
                piece.kind = Some(Override::Kind(CodeKind::Trap(number(code))));
            }
            ["handler", returns, lands, bytes] => {
                piece.handler = Some([number(returns), number(lands), number(bytes)]);
            }
            _ => panic!("unknown option {option}"),
        }
    }
    piece
}

/// Decodes hexadecimal digits.
pub(crate) fn bytes(digits: &str) -> Vec<u8> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty(), "{digits}: half a byte");
    let byte = |pair: &[u8; 2]| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes = pairs.iter().map(|pair| byte(pair).expect("two digits"));
    bytes.collect()
}
