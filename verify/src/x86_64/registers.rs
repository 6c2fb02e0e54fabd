//! Numbers and sizes of general registers.

use iced_x86::Register;

/// The number of the 64-bit register that contains `register`, and the bytes of `register`.
pub(super) fn general(register: Register) -> (usize, u32) {
    const COUNT: usize = 16;
    let number = |first: Register| {
        let number = (register as usize).wrapping_sub(first as usize);
        (number < COUNT).then_some(number)
    };
    // Fast path for the most frequent sizes. The registers of a size have successive codes.
    if let Some(number) = number(Register::RAX) {
        return (number, 8);
    }
    if let Some(number) = number(Register::EAX) {
        return (number, 4);
    }
    (register.full_register().number(), register.size() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes_are_those_of_the_decoder() {
        let registers = Register::values().filter(|register| register.is_gpr());
        for register in registers {
            let full = register.full_register();
            assert_eq!(general(register), (full.number(), register.size() as u32));
        }
    }
}
