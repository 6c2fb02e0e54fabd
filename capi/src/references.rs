//! [`References`]: numbers for the references of a guest that the embedder holds.
//!
//! A reference of the runtime is an address in the guest's instance. A C program can write any
//! number to a value. So the program gets indices of this list in place of addresses, and a number
//! outside the list is an error.

use crate::error::{Fallible, argument};
use pirn_runtime::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// Most different references that an instance gives to its embedder. A guest decides how many
/// references exist, and a reference takes about 100 bytes of the host's memory.
pub(crate) const REFERENCES_MAX: usize = 1 << 16;

/// The references that an instance has given to its embedder.
#[derive(Debug)]
pub(crate) struct References {
    /// Distinguishes the numbers of this list from the numbers of other instances. Serials repeat
    /// after 2^32 lists. The runtime checks each reference, so a wrong reference is only a wrong
    /// argument.
    serial: u32,
    given: Vec<Value>,
    numbers: HashMap<Value, u64>,
}

impl References {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Self {
            serial: NEXT.fetch_add(1, Ordering::Relaxed),
            given: vec![],
            numbers: HashMap::new(),
        }
    }

    /// The number of a reference, which must not be null.
    ///
    /// # Errors
    ///
    /// If the list is full.
    pub(crate) fn number(&mut self, reference: Value) -> Fallible<u64> {
        if let Some(number) = self.numbers.get(&reference) {
            return Ok(*number);
        }
        if self.given.len() >= REFERENCES_MAX {
            return Err(argument(format!(
                "the instance has given {REFERENCES_MAX} different references to its host, which \
                 is the limit; make another instance"
            )));
        }
        self.given.push(reference);
        let number = (u64::from(self.serial) << 32) | self.given.len() as u64;
        self.numbers.insert(reference, number);
        Ok(number)
    }

    /// The reference with a number, which must not be 0.
    ///
    /// # Errors
    ///
    /// If this instance has not given the number.
    pub(crate) fn get(&self, number: u64) -> Fallible<Value> {
        let (serial, at) = ((number >> 32) as u32, (number as u32).wrapping_sub(1));
        let found = self.given.get(at as usize).copied();
        let own = found.filter(|_| serial == self.serial);
        own.ok_or_else(|| {
            argument(format!(
                "reference {number:#x} was not given by this instance; pass only references that \
                 it gave"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_only_in_its_own_list() {
        let (mut one, mut two) = (References::new(), References::new());
        let values = [1, 2].map(Value::I32);
        let numbers = values.map(|value| one.number(value).expect("there is room"));
        assert_eq!(one.number(values[0]).expect("it is there"), numbers[0]);
        assert_eq!(one.get(numbers[1]).expect("it is there"), values[1]);
        two.number(values[0]).expect("there is room");
        for wrong in [numbers[0] + 2, numbers[0] - 1, 1, u64::MAX] {
            one.get(wrong).expect_err("no such number");
        }
        two.get(numbers[0]).expect_err("a number of the other list");
    }

    #[test]
    fn a_full_list_refuses_one_more() {
        let mut list = References::new();
        for n in 0..REFERENCES_MAX as i32 {
            list.number(Value::I32(n)).expect("there is room");
        }
        list.number(Value::I32(-1)).expect_err("it is full");
        list.number(Value::I32(0)).expect("it is in the list");
    }
}
