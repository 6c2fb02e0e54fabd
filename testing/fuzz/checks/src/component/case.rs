//! [`Case`]: random types of one or two guests, their component, calls and scripts.

use super::decode::Encoding;
use super::engine::Call;
use super::hostile::Writer;
use super::scripted::{self, Guest, Types, realloc, word};
use super::types::{FLAT_PARAMS_MAX, Handles, Ty};
use super::values::{each_handle, spread, with_nans};
use crate::random::Random;
use pirn_component::Value;

/// Maximum size of a value in the guest's memory, in bytes.
const VALUE_BYTES_MAX: usize = 6 << 10;
/// Maximum number of handles that a script drops.
const DROPS_MAX: usize = (word::IMAGE - word::DROP) as usize;

/// One or two guests: their types, in turn a parameter and a result, and their string encodings.
/// The `h` of the first of two guests is the `f` of the second.
pub(super) struct Case {
    pub(super) types: Vec<Ty>,
    pub(super) encodings: Vec<Encoding>,
}

/// The values of a call that must arrive unchanged. A field is `None` if a guest makes a mistake in
/// the value, or if the value has handles.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) returned: Option<Value>,
    pub(super) given: Option<Vec<Value>>,
    /// The parameter of each guest's `f`, and the result of its `h`.
    pub(super) at_guests: Vec<[Option<Value>; 2]>,
    /// Whether the call must succeed.
    pub(super) succeeds: bool,
}

impl Case {
    pub(super) fn any(random: &mut Random) -> Self {
        let guests = 1 + random.below(2);
        let handles = random.once_in(3);
        let types = (0..2 + 2 * guests).map(|at| {
            let handles = match at % 2 {
                _ if !handles => Handles::None,
                0 => Handles::All,
                _ => Handles::Own,
            };
            let mut depth = random.below(4);
            loop {
                let ty = Ty::any(random, depth, handles);
                let large = (0..4).any(|_| {
                    let value = ty.value(random);
                    let mut writer = writer(random, Encoding::Utf16, None, vec![]);
                    writer.write(&ty, &value, 0);
                    writer.image.len() > VALUE_BYTES_MAX / 2
                });
                if !large {
                    return ty;
                }
                depth = depth.saturating_sub(1);
            }
        });
        let types = types.collect();
        let encodings = (0..guests).map(|_| Encoding::ALL[random.below(Encoding::ALL.len())]);
        Self {
            types,
            encodings: encodings.collect(),
        }
    }

    /// The types of a guest: parameter and result of `f`, and of `h`.
    pub(super) fn types_of(&self, guest: usize) -> &[Ty] {
        &self.types[2 * guest..2 * guest + 4]
    }

    pub(super) fn text(&self) -> String {
        let types = Types::new(&self.types);
        let guest = |number: usize| {
            let of = self.types_of(number);
            Guest {
                number: number as u32,
                encoding: self.encodings[number],
                f: [&of[0], &of[1]],
                h: [&of[2], &of[3]],
            }
        };
        match self.encodings.len() {
            1 => scripted::single(&types, &guest(0), [0, 1, 2, 3]),
            _ => scripted::joined(&types, &[guest(0), guest(1)], [[0, 1, 2, 3], [2, 3, 4, 5]]),
        }
    }

    /// A random call, and the values that must arrive.
    pub(super) fn call(&self, random: &mut Random) -> (Call, Expected) {
        let guests = self.encodings.len();
        let value = |ty: &Ty, random: &mut Random| {
            let mut value = ty.value(random);
            with_nans(&mut value, random);
            let mut writer = writer(random, Encoding::Utf16, None, vec![]);
            writer.write(ty, &value, 0);
            let small = writer.image.len() <= VALUE_BYTES_MAX;
            small.then_some(value)
        };
        let values = self.types.iter().map(|ty| {
            loop {
                if let Some(value) = value(ty, random) {
                    return value;
                }
            }
        });
        let values: Vec<Value> = values.collect();
        // An early mistake hides later ones. So a quarter of the calls have no mistakes, and half
        // have few.
        let mistaken = random.below(4);
        let mut script = vec![];
        let mut intact = vec![[true; 2]; guests];
        let mut succeeds = true;
        for (guest, intact) in intact.iter_mut().enumerate() {
            let mistakes = match mistaken {
                0 => None,
                1 => Some(4),
                _ => Some(24),
            };
            let base = guest as u32 * word::GUEST;
            let mut words = vec![];
            self.script(guest, &values, random, mistakes, intact, &mut words);
            let given = |at| {
                words
                    .iter()
                    .find(|(found, _)| *found == at)
                    .map_or(0, |(_, to)| *to)
            };
            succeeds &= [word::REALLOC, word::REALLOC_RESULT, word::POST_RETURN]
                .iter()
                .all(|at| given(*at) == 0);
            script.extend(words.into_iter().map(|(at, to)| (base + at, to)));
        }
        script.sort_unstable_by_key(|(at, _)| *at);
        let handles = self.types.iter().any(Ty::has_handles);
        succeeds &= !handles && intact.iter().flatten().all(|intact| *intact);
        let known = |at: usize, intact: bool| {
            let known = intact && !self.types[at].has_handles();
            known.then(|| values[at].clone())
        };
        let last = guests - 1;
        let at_guests = (0..guests).map(|guest| {
            let before = guest == 0 || intact[guest - 1][0];
            let after = guest == last || intact[guest + 1][1];
            [known(2 * guest, before), known(2 * guest + 3, after)]
        });
        let expected = Expected {
            returned: known(1, intact[0][1]),
            given: known(2 * last + 2, intact[last][0]).map(|value| spread(&value)),
            at_guests: at_guests.collect(),
            succeeds,
        };
        let call = Call {
            fresh: random.once_in(2),
            script,
            params: spread(&values[0]),
            answer: values[self.types.len() - 1].clone(),
        };
        (call, expected)
    }

    /// Adds a guest's script to `words`. Sets in `intact` whether the parameter of `h` and the
    /// result of `f` are without mistakes.
    fn script(
        &self,
        guest: usize,
        values: &[Value],
        random: &mut Random,
        mistakes: Option<usize>,
        intact: &mut [bool; 2],
        words: &mut Vec<(u32, u64)>,
    ) {
        let (types, values) = (self.types_of(guest), &values[2 * guest..2 * guest + 4]);
        // Whether the host may overwrite the values that the script has put into the memory.
        let mut spoiled = false;
        for at in [word::REALLOC, word::REALLOC_RESULT] {
            if mistakes.is_none() || !random.once_in(12) {
                continue;
            }
            let mode = [
                realloc::FIXED,
                realloc::FIXED,
                realloc::TRAP,
                realloc::LEAVE,
            ];
            words.push((at, mode[random.below(4)]));
            let address = match random.below(5) {
                0 => 1 + random.below(16) as u64,
                1 => (scripted::MEMORY_BYTES - 1 - random.below(64) as u32).into(),
                2 => scripted::MEMORY_BYTES.into(),
                3 => u64::from(u32::MAX) - random.below(16) as u64,
                _ => random.bits(),
            };
            // Only for UTF-8 does the specification fix the number and the sizes of allocations.
            // With other encodings, an odd address is unaligned for every string, so the host
            // writes none.
            let exact = self.encodings[guest] == Encoding::Utf8;
            let address = match (address as u32) < scripted::MEMORY_BYTES && !exact {
                true => address | 1,
                false => address,
            };
            spoiled = true;
            words.push((at + 1, address));
            if exact {
                words.push((at + 2, random.below(3) as u64));
            }
        }
        let mut owned: Vec<u32> = (1..=24).collect();
        let handles = types.iter().any(Ty::has_handles);
        if handles {
            words.push((word::MAKE, 24));
        }
        words.push((word::CALL, u64::from(!random.once_in(8))));
        if mistakes.is_some() && random.once_in(24) {
            words.push((word::POST_RETURN, 1 + random.below(2) as u64));
        }
        let mut image = vec![];
        for (part, (at, flat_max)) in [(word::PARAMS, FLAT_PARAMS_MAX), (word::RESULT, 1)]
            .into_iter()
            .enumerate()
        {
            let (ty, value) = match part {
                0 => (&types[2], &values[2]),
                _ => (&types[1], &values[1]),
            };
            let mut writer = writer(random, self.encodings[guest], mistakes, owned);
            writer.image = image;
            let noise = mistakes.is_some() && writer.random.once_in(8);
            let given = match noise {
                true => writer.noise(ty.flat().len().min(if part == 0 { 16 } else { 1 })),
                false => writer.write(ty, value, flat_max),
            };
            intact[part] = writer.intact && !spoiled;
            (image, owned) = (writer.image, writer.handles);
            // The address for the result of `h` is its last core parameter.
            let end = at + given.len() as u32;
            words.extend((at..).zip(given));
            if part == 0 && types[3].flat().len() > 1 {
                let mut place = u64::from(scripted::RESULT_AT);
                if mistakes.is_some() && random.once_in(24) {
                    intact[part] = false;
                    place = match random.below(3) {
                        0 => place + 1 + random.below(7) as u64,
                        1 => (scripted::MEMORY_BYTES - random.below(64) as u32).into(),
                        // Always past the memory, so that the result never overwrites values of the
                        // script.
                        _ => random.bits() | u64::from(scripted::MEMORY_BYTES),
                    };
                }
                words.push((end, place));
            }
        }
        while !image.len().is_multiple_of(8) {
            image.push(0);
        }
        words.push((word::IMAGE_LEN, image.len() as u64 / 8));
        let image = image.chunks_exact(8);
        let image = image.map(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
        words.extend((word::IMAGE..).zip(image));
        if handles {
            let mut dropped = vec![];
            // The guest has made handles 1 to 24. The handles in the parameter of `f` follow.
            let mut next = 24;
            each_handle(&mut values[0].clone(), &mut |borrowed| {
                next += 1;
                if borrowed && (mistakes.is_none() || !random.once_in(12)) {
                    dropped.push(next);
                }
            });
            if random.once_in(3) {
                dropped.push(1 + random.below(30) as u64);
            }
            dropped.truncate(DROPS_MAX);
            words.push((word::DROP_LEN, dropped.len() as u64));
            words.extend((word::DROP..).zip(dropped));
        }
    }
}

fn writer(
    random: &mut Random,
    encoding: Encoding,
    mistakes: Option<usize>,
    handles: Vec<u32>,
) -> Writer<'_> {
    Writer {
        random,
        encoding,
        image: vec![],
        mistakes,
        intact: true,
        handles,
    }
}
