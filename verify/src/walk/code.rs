//! The instructions of a function. An instruction is decoded once: before the walk if direct jumps
//! lead to it, otherwise when a computed jump reaches it.

use super::{Machine, Walk};
use crate::error::{Proof, Property, refuse};

impl<'m, M: Machine<'m>> Walk<'m, M> {
    /// Decodes from an offset to the next end of a path, and finds the targets of jumps. An
    /// instruction that cannot be decoded is refused when a path reaches it.
    pub(super) fn discover(&mut self, from: u32) {
        let mut todo = vec![from];
        while let Some(mut at) = todo.pop() {
            while let Some(index) = at.checked_sub(self.entry.start)
                && let Some(number) = self.numbers.get(index as usize)
                && *number == 0
            {
                let Ok(instruction) = self.decode(at) else {
                    break;
                };
                let next = at + M::bytes(instruction) as u32;
                if M::is_plain(instruction) {
                    at = next;
                    continue;
                }
                let end = self.entry.start + self.entry.len;
                if let Some(target) = M::jump_target(instruction)
                    && (self.entry.start..end).contains(&target)
                {
                    self.leaders[(target - self.entry.start) as usize] = true;
                    todo.push(target);
                    if target <= at {
                        let last = self.live.loops.entry(target).or_default();
                        *last = next.max(*last);
                    }
                }
                self.has_computed_jumps |= M::is_computed_jump(instruction);
                if !M::falls(instruction) {
                    break;
                }
                at = next;
                if let Some(handler) = self.module.handlers.find(at)
                    && (self.entry.start..end).contains(&handler.handler)
                {
                    self.leaders[(handler.handler - self.entry.start) as usize] = true;
                    todo.push(handler.handler);
                }
            }
        }
    }

    /// Decodes the instruction at an offset. The instruction must not overlap another instruction.
    fn decode(&mut self, at: u32) -> Proof<M::Instruction> {
        let index = (at - self.entry.start) as usize;
        let instruction = self.machine.decode(self.module, index)?;
        let Some(bytes) = self.numbers.get_mut(index..index + M::bytes(instruction)) else {
            return refuse(
                Property::Instructions,
                "an instruction ends after the end of the function",
            );
        };
        if bytes.iter().any(|number| *number != 0) {
            return refuse(
                Property::Instructions,
                "overlaps another instruction that is reached, too",
            );
        }
        // Bytes inside an instruction have `u32::MAX`, which is the number of no instruction.
        bytes.fill(u32::MAX);
        self.instructions.push(instruction);
        bytes[0] = self.instructions.len() as u32;
        Ok(instruction)
    }

    /// The instruction at an offset, if it was decoded.
    pub(crate) fn known_instruction(&self, at: u32) -> Option<M::Instruction> {
        let index = at.checked_sub(self.entry.start)? as usize;
        let number = self.numbers.get(index)?.checked_sub(1)? as usize;
        self.instructions.get(number).copied()
    }

    /// The instruction that ends at an offset, if it was decoded.
    pub(crate) fn instruction_before(&self, at: u32) -> Option<M::Instruction> {
        let index = at.checked_sub(self.entry.start)? as usize;
        let starts = self.numbers.get(..index)?;
        let start = starts.iter().rposition(|number| *number != u32::MAX)?;
        let number = starts[start].checked_sub(1)? as usize;
        let instruction = *self.instructions.get(number)?;
        (start + M::bytes(instruction) == index).then_some(instruction)
    }

    /// The instruction at an offset.
    pub(crate) fn instruction(&mut self, at: u32) -> Proof<M::Instruction> {
        let index = at.checked_sub(self.entry.start).map(|index| index as usize);
        match index.and_then(|index| self.numbers.get(index).copied()) {
            Some(u32::MAX) => refuse(
                Property::Instructions,
                "jumps into the middle of an instruction",
            ),
            Some(0) => {
                self.discover(at);
                match self.known_instruction(at) {
                    Some(instruction) => Ok(instruction),
                    None => self.decode(at),
                }
            }
            Some(number) => Ok(self.instructions[number as usize - 1]),
            None => refuse(
                Property::Targets,
                format!("continues at text offset {at:#x}, past the end of the function"),
            ),
        }
    }
}
