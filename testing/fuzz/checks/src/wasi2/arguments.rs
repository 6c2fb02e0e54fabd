//! Hostile arguments.

use super::guest::{
    HEAD_WORDS, MEMORY_BYTES, RESULT_AT, SMALL_AT, TEXT_BYTES, TEXTS, TEXTS_AT, WORDS_AT,
};
use super::interfaces::{Function, Interfaces, Shape};
use crate::random::Random;
use std::collections::HashMap;
use wit_parser::{Type, TypeId};

/// Most handles in a list.
const LIST_MAX: usize = 40;

/// The handles that a guest has got, and perhaps dropped.
pub(super) type Handles = HashMap<TypeId, Vec<u32>>;

/// Makes the words of a call.
pub(super) struct Arguments<'a> {
    pub(super) random: &'a mut Random,
    pub(super) interfaces: &'a Interfaces,
    pub(super) handles: &'a mut Handles,
    /// Ports that the guest may connect and send to.
    pub(super) ports: [u16; 2],
    /// One word in this number is arbitrary. `None` means no word.
    pub(super) wild: Option<usize>,
    /// Words that parameters point to. They follow the parameters.
    extra: Vec<u64>,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(
        random: &'a mut Random,
        interfaces: &'a Interfaces,
        handles: &'a mut Handles,
        ports: [u16; 2],
        wild: Option<usize>,
    ) -> Self {
        Self {
            random,
            interfaces,
            handles,
            ports,
            wild,
            extra: vec![],
        }
    }

    /// The core parameters of a function, and the words that they point to.
    pub(super) fn of(mut self, function: &Function) -> Vec<u64> {
        let count = function.signature.params.len();
        let mut words = Vec::with_capacity(count);
        if let Some(resource) = function.drops {
            words.push(self.handle(resource, false));
        } else if function.signature.indirect_params {
            words.push(u64::from(SMALL_AT));
        } else {
            for ty in &function.params {
                self.push(ty, &mut words, count);
            }
        }
        if words.len() < count {
            words.push(u64::from(RESULT_AT));
        }
        words.resize(count, 0);
        if let Some(wild) = self.wild {
            for word in &mut words {
                if self.random.once_in(wild) {
                    *word = self.random.bits();
                }
            }
        }
        words.append(&mut self.extra);
        words
    }

    /// Adds the words of a value. The function has `count` core parameters.
    fn push(&mut self, ty: &Type, words: &mut Vec<u64>, count: usize) {
        match self.interfaces.shape(ty) {
            Shape::Number => words.push(self.number(ty)),
            Shape::String => {
                let text = self.random.below(TEXTS.len() + 1);
                let (start, len) = match TEXTS.get(text) {
                    Some(one) => (TEXTS_AT + text as u32 * TEXT_BYTES, one.len() as u32),
                    // Zeros, more than any name may have.
                    None => (1 << 20, [4095, 5000, 200_000][self.random.below(3)]),
                };
                words.extend([u64::from(start), u64::from(len)]);
            }
            Shape::List(element) => self.list(&element, words, count),
            Shape::Handle(resource, is_borrowed) => {
                let handle = self.handle(resource, is_borrowed);
                words.push(handle);
            }
            Shape::Parts(parts) => {
                for part in parts {
                    self.push(part, words, count);
                }
            }
            Shape::Cases(cases) => {
                let end = words.len() + self.interfaces.words(ty);
                let case = self.random.below(cases.len());
                words.push(case as u64);
                if let Some(Some(payload)) = cases.get(case) {
                    self.push(payload, words, count);
                }
                words.resize(end, 0);
            }
        }
    }

    fn list(&mut self, element: &Type, words: &mut Vec<u64>, count: usize) {
        if let Shape::Handle(resource, is_borrowed) = self.interfaces.shape(element) {
            let len = self.random.below(LIST_MAX);
            let at = HEAD_WORDS + count + self.extra.len();
            for _ in 0..len.div_ceil(2) {
                let [one, other] = [(); 2].map(|()| self.handle(resource, is_borrowed));
                self.extra.push(one | other << 32);
            }
            let start = WORDS_AT as usize + at * 8;
            words.extend([start as u64, len as u64]);
            return;
        }
        let bytes = self.interfaces.bytes(element).max(1) as u32;
        let lens = [
            0,
            1,
            2,
            16,
            100,
            4096,
            4097,
            65_536,
            65_537,
            1 << 20,
            MEMORY_BYTES / bytes,
        ];
        // Lists of larger elements are mostly short, so that their elements are the small numbers.
        let most = if bytes > 1 && !self.random.once_in(10) {
            4
        } else {
            lens.len()
        };
        let len = lens[self.random.below(most)];
        let start = match self.random.below(4) {
            0 => MEMORY_BYTES - (len * bytes).min(MEMORY_BYTES),
            1 => TEXTS_AT,
            _ => SMALL_AT,
        };
        words.extend([u64::from(start), u64::from(len)]);
    }

    fn number(&mut self, ty: &Type) -> u64 {
        let random = &mut *self.random;
        match ty {
            Type::Bool => random.any() % 2,
            Type::U8 => [127, 0, 1, 255][random.below(4)],
            Type::U16 => {
                let numbers = [0, self.ports[0], self.ports[1], 1, 200, 0xffff];
                u64::from(numbers[random.below(numbers.len())])
            }
            Type::Char => [0, 0x41, 0xd7ff, 0x10_ffff][random.below(4)],
            Type::U64 | Type::S64 => {
                let numbers = [
                    0,
                    1,
                    100,
                    4096,
                    65_536,
                    65_537,
                    1 << 20,
                    5_000_000,
                    60_000_000,
                    70_000_000,
                    1 << 32,
                    u64::MAX / 2,
                    u64::MAX,
                ];
                numbers[random.below(numbers.len())]
            }
            Type::U32 | Type::S32 => [0, 1, 2, 1000, u64::from(u32::MAX)][random.below(5)],
            // Enums and flags.
            _ => random.any() % 4,
        }
    }

    /// A handle of a type, sometimes one that was dropped, or one of another type. An owned handle
    /// is the guest's no more after the call.
    fn handle(&mut self, resource: TypeId, is_borrowed: bool) -> u64 {
        if self.wild.is_some() && self.random.once_in(6) {
            return self.random.below(50) as u64;
        }
        let all = self.handles.entry(resource).or_default();
        if all.is_empty() {
            return 1 + self.random.below(8) as u64;
        }
        let at = self.random.below(all.len());
        if is_borrowed || (self.wild.is_some() && self.random.once_in(3)) {
            return u64::from(all[at]);
        }
        u64::from(all.swap_remove(at))
    }
}
