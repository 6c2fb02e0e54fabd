//! Conversions between two memories of the host: borders of pieces, room, stops.

use super::*;
use crate::stop::is_stop;
use std::cell::Cell;

/// Two memories of the host.
struct Fake {
    from: Vec<u8>,
    to: Vec<u8>,
    /// Number of looks for a stop so far.
    looks: Cell<usize>,
    /// The number of the look that finds a stop.
    stops_at: usize,
    /// Most bytes that were read or written at once.
    largest: usize,
}

impl Ends for Fake {
    fn read(&mut self, side: Side, address: u64, to: &mut [u8]) -> Result<(), HostError> {
        let memory = match side {
            Side::From => &self.from,
            Side::To => &self.to,
        };
        to.copy_from_slice(&memory[address as usize..][..to.len()]);
        self.largest = self.largest.max(to.len());
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), HostError> {
        self.to[address as usize..][..bytes.len()].copy_from_slice(bytes);
        self.largest = self.largest.max(bytes.len());
        Ok(())
    }

    fn look(&self) -> Result<(), AbiError> {
        self.looks.set(self.looks.get() + 1);
        match self.looks.get() == self.stops_at {
            true => Err(AbiError::Stopped),
            false => Ok(()),
        }
    }
}

fn utf16_of(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn latin1_of(text: &str) -> Vec<u8> {
    text.chars().map(|c| u32::from(c) as u8).collect()
}

/// Converts bytes to address 0 of a memory. Returns the numbers of the conversion, and the
/// memories.
fn converted(
    op: Transcode,
    from: Vec<u8>,
    to: Vec<u8>,
    room: u32,
    done: u32,
) -> (Result<[u32; 2], HostError>, Fake) {
    let units = from.len() as u64 / source(op).1;
    let mut ends = Fake {
        from,
        to,
        looks: Cell::new(0),
        stops_at: usize::MAX,
        largest: 0,
    };
    ends.to.resize(1 << 20, 0xee);
    let params = [0, units as u32, 0, room, done];
    let bytes = Buffers::bytes(op, params);
    assert!(bytes <= PIECE_BYTES);
    let numbers = convert(&mut ends, op, params, Buffers::new(bytes));
    assert!(ends.largest <= 2 * PIECE_BYTES, "{op:?}");
    (numbers, ends)
}

/// Texts whose characters lie across the ends of pieces at each offset.
fn texts() -> Vec<String> {
    let mut texts = vec![String::new(), "a".to_owned(), "a\u{e9}".to_owned()];
    for before in 0..4 {
        for c in ['a', '\u{e9}', '\u{20ac}', '\u{1f600}'] {
            let mut text = "b".repeat(before);
            text.extend(std::iter::repeat_n(c, 50_000));
            texts.push(text);
        }
    }
    texts
}

#[test]
fn strings_in_pieces_are_converted_as_whole_ones() {
    for text in texts() {
        let (wide, units) = (utf16_of(&text), text.encode_utf16().count() as u32);
        let (numbers, ends) =
            converted(Transcode::CopyUtf8, text.clone().into_bytes(), vec![], 0, 0);
        assert_eq!(numbers.expect("it is valid"), [0, 0]);
        assert_eq!(&ends.to[..text.len()], text.as_bytes());

        let (numbers, ends) = converted(Transcode::CopyUtf16, wide.clone(), vec![], 0, 0);
        assert_eq!(numbers.expect("it is valid"), [0, 0]);
        assert_eq!(&ends.to[..wide.len()], wide);

        let utf8 = text.clone().into_bytes();
        let (numbers, ends) = converted(Transcode::Utf8ToUtf16, utf8, vec![], 0, 0);
        assert_eq!(numbers.expect("it is valid"), [units, 0]);
        assert_eq!(&ends.to[..wide.len()], wide);
        assert_eq!(ends.to[wide.len()], 0xee);

        let room = text.len() as u32;
        let (numbers, ends) = converted(Transcode::Utf16ToUtf8, wide.clone(), vec![], room, 0);
        assert_eq!(numbers.expect("it is valid"), [units, room]);
        assert_eq!(&ends.to[..text.len()], text.as_bytes());

        let is_narrow = text.chars().all(is_latin1);
        let op = Transcode::Utf16ToCompactProbablyUtf16;
        let (numbers, ends) = converted(op, wide.clone(), vec![], 0, 0);
        let (tag, bytes) = match is_narrow {
            true => (0, latin1_of(&text)),
            false => (UTF16_TAG, wide.clone()),
        };
        assert_eq!(numbers.expect("it is valid"), [units | tag, 0]);
        assert_eq!(ends.to[..bytes.len()], bytes);
    }
}

#[test]
fn a_destination_that_is_full_ends_the_conversion() {
    for text in texts() {
        let wide = utf16_of(&text);
        for room in [0, 1, 2, 3, 65_535, 65_536, 65_537, 99_999] {
            let fits = text.floor_char_boundary(room);
            let units = text[..fits].encode_utf16().count() as u32;
            let room = room as u32;
            let (numbers, ends) = converted(Transcode::Utf16ToUtf8, wide.clone(), vec![], room, 0);
            assert_eq!(numbers.expect("it is valid"), [units, fits as u32]);
            assert_eq!(&ends.to[..fits], &text.as_bytes()[..fits]);
            assert_eq!(ends.to[fits], 0xee);
        }
    }
}

#[test]
fn latin1_is_converted_as_far_as_possible_and_then_widened() {
    for narrow in [0, 1, 65_535, 65_536, 65_537, 150_001] {
        let first: String = "a\u{e9}\u{ff}".chars().cycle().take(narrow).collect();
        let text = format!("{first}\u{20ac}\u{1f600}end");
        let rest = &text[first.len()..];
        for is_utf8 in [true, false] {
            let encoded = |text: &str| match is_utf8 {
                true => text.as_bytes().to_vec(),
                false => utf16_of(text),
            };
            let (begin, go_on, read) = match is_utf8 {
                true => (
                    Transcode::Utf8ToLatin1,
                    Transcode::Utf8ToCompactUtf16,
                    first.len(),
                ),
                false => (
                    Transcode::Utf16ToLatin1,
                    Transcode::Utf16ToCompactUtf16,
                    narrow,
                ),
            };
            let (numbers, ends) = converted(begin, encoded(&text), vec![], 0, 0);
            let numbers = numbers.expect("it is valid");
            assert_eq!(numbers, [read as u32, narrow as u32]);
            assert_eq!(&ends.to[..narrow], latin1_of(&first));
            let (numbers, ends) = converted(go_on, encoded(rest), ends.to, 0, narrow as u32);
            let wide = utf16_of(&text);
            assert_eq!(numbers.expect("it is valid"), [wide.len() as u32 / 2, 0]);
            assert_eq!(&ends.to[..wide.len()], wide, "{narrow}");
        }
        let latin1 = latin1_of(&first);
        let (_, ends) = converted(Transcode::CopyLatin1, latin1.clone(), vec![], 0, 0);
        assert_eq!(&ends.to[..narrow], latin1);
        let (_, ends) = converted(Transcode::Latin1ToUtf16, latin1.clone(), vec![], 0, 0);
        assert_eq!(&ends.to[..narrow * 2], utf16_of(&first));
        let room = first.len() as u32;
        let (numbers, ends) = converted(Transcode::Latin1ToUtf8, latin1, vec![], room, 0);
        assert_eq!(numbers.expect("it is valid"), [narrow as u32, room]);
        assert_eq!(&ends.to[..first.len()], first.as_bytes());
    }
}

#[test]
fn invalid_strings_are_refused_wherever_they_are() {
    for at in [0, 1, 65_533, 65_534, 65_535, 65_536, 65_537, 99_999] {
        for wrong in [&[0xff][..], &[0x80], &[0xe2, 0x82], &[0xf0, 0x9f, 0x98]] {
            for end in [0, 1, 70_000] {
                let mut bytes = vec![b'a'; at];
                bytes.extend_from_slice(wrong);
                bytes.resize(bytes.len() + end, b'a');
                for op in [Transcode::CopyUtf8, Transcode::Utf8ToUtf16] {
                    let (numbers, _) = converted(op, bytes.clone(), vec![], 0, 0);
                    let error = numbers.expect_err("it is invalid").to_string();
                    assert!(error.contains("UTF-8"), "{error}");
                }
            }
        }
        // A half of a surrogate pair.
        for wrong in [0xd83d_u16, 0xde00] {
            for end in [0, 1, 70_000] {
                let mut units = vec![u16::from(b'a'); at];
                units.push(wrong);
                units.resize(units.len() + end, u16::from(b'a'));
                let bytes: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
                for op in [
                    Transcode::CopyUtf16,
                    Transcode::Utf16ToUtf8,
                    Transcode::Utf16ToCompactProbablyUtf16,
                ] {
                    let (numbers, _) = converted(op, bytes.clone(), vec![], u32::MAX, 0);
                    let error = numbers.expect_err("it is invalid").to_string();
                    assert!(error.contains("UTF-16"), "{error}");
                }
            }
        }
    }
}

#[test]
fn a_stop_ends_a_conversion_between_two_pieces() {
    let bytes = vec![b'a'; 8 * PIECE_BYTES];
    for (op, looks, written) in [
        (Transcode::CopyUtf8, 7, 1),
        (Transcode::CopyLatin1, 7, 1),
        (Transcode::Latin1ToUtf16, 7, 2),
        (Transcode::Latin1ToUtf8, 7, 1),
        (Transcode::Utf8ToUtf16, 7, 2),
        (Transcode::Utf8ToLatin1, 7, 1),
    ] {
        let (numbers, ends) = converted(op, bytes.clone(), vec![], u32::MAX, 0);
        assert!(numbers.is_ok());
        assert_eq!(ends.looks.get(), looks, "{op:?}");
        for stops_at in 1..=looks {
            let mut ends = Fake {
                from: bytes.clone(),
                to: vec![0xee; 2 << 20],
                looks: Cell::new(0),
                stops_at,
                largest: 0,
            };
            let params = [0, bytes.len() as u32, 0, u32::MAX, 0];
            let stopped = convert(&mut ends, op, params, Buffers::new(PIECE_BYTES));
            assert!(is_stop(&stopped.expect_err("it is stopped")));
            let untouched = ends.to.iter().position(|byte| *byte == 0xee);
            assert_eq!(untouched, Some(stops_at * written * PIECE_BYTES), "{op:?}");
        }
    }
}
