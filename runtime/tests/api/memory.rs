//! The host reads and writes numbers and strings in memories.

use crate::common;
use common::values::{number, region};
use pirn_runtime::{
    AddrType, CallError, Caller, HostError, Instance, Linker, MemoryType, PageSize, ReadStrError,
    SharedMemory, TrapCode, Value,
};
use std::error::Error;

const PAGE: u32 = 1 << 16;

/// A module with a memory of one page. Its function `read` lets the host read a string.
const GUEST: &str = r#"(module
  (import "h" "read" (func $read (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "h\c3\a9llo")
  (data (i32.const 65535) "z")
  (func (export "read") (param i32 i32) (result i32) (call $read (local.get 0) (local.get 1))))"#;

/// An instance whose host function returns errors by `?`.
fn guest() -> Instance<String> {
    let mut linker = Linker::new();
    let read = |mut caller: Caller<'_, String>, address: u32, len: u32| {
        let text = caller.memory().read_str(address, len)?.to_owned();
        *caller.data_mut() = text;
        Ok::<_, HostError>(len)
    };
    linker.func("h", "read", read).expect("the name is free");
    let region = region(1);
    let prepared = region.prepare(&common::wat(GUEST), &linker);
    let prepared = prepared.expect("the module links");
    prepared
        .try_instantiate(String::new())
        .expect("the slot is free")
}

#[test]
fn small_numbers_are_little_endian_up_to_the_last_byte() {
    let mut guest = guest();
    let mut memory = guest.memory_mut();
    memory
        .write(PAGE - 4, &[1, 2, 3, 0xfe])
        .expect("address in bounds");
    assert_eq!(memory.read_u8(PAGE - 1).expect("address in bounds"), 0xfe);
    assert_eq!(
        memory.read_u16(PAGE - 2).expect("address in bounds"),
        0xfe03
    );
    // This unaligned access crosses a 4 KiB page boundary.
    memory.write_u16(4095, 0x1234).expect("address in bounds");
    assert_eq!(memory.read_u8(4095).expect("address in bounds"), 0x34);
    assert_eq!(memory.read_u8(4096).expect("address in bounds"), 0x12);
    memory.write_u8(PAGE - 1, 7).expect("address in bounds");
    memory
        .write_u16(PAGE - 3, 0x0605)
        .expect("address in bounds");
    let mut last = [0; 4];
    memory.read(PAGE - 4, &mut last).expect("address in bounds");
    assert_eq!(last, [1, 5, 6, 7]);
    // The runtime must refuse accesses past the end, and accesses whose 32-bit address would wrap.
    for address in [PAGE, u32::MAX] {
        let codes = [
            memory.read_u8(address).map(drop),
            memory.read_u16(address).map(drop),
            memory
                .read_u16(address.wrapping_sub(1).max(PAGE - 1))
                .map(drop),
            memory.write_u8(address, 0),
            memory.write_u16(address, 0),
            memory.write_u16(PAGE - 1, 0),
        ];
        for code in codes.map(|result| result.expect_err("address out of bounds").code()) {
            assert_eq!(code, TrapCode::MemoryOutOfBounds, "{address}");
        }
    }
    memory.read(PAGE - 4, &mut last).expect("address in bounds");
    assert_eq!(
        last,
        [1, 5, 6, 7],
        "refused writes must not change the memory"
    );
    // A shared reference to the instance reads the same values.
    let memory = guest.memory();
    assert_eq!(memory.read_u8(PAGE - 1).expect("address in bounds"), 7);
    assert_eq!(
        memory.read_u16(PAGE - 2).expect("address in bounds"),
        0x0706
    );
    memory
        .read_u16(PAGE - 1)
        .expect_err("address out of bounds");
}

#[test]
fn strings_are_read_where_they_are_whole() {
    let guest = guest();
    let memory = guest.memory();
    assert_eq!(
        memory.read_str(16, 6).expect("the string is UTF-8"),
        "héllo"
    );
    assert_eq!(
        memory.read_str(PAGE - 1, 1).expect("the string is UTF-8"),
        "z"
    );
    assert_eq!(
        memory
            .read_str(PAGE, 0)
            .expect("an empty string is in bounds"),
        ""
    );
    // The string begins or ends inside a character.
    match memory.read_str(16, 2) {
        Err(ReadStrError::Utf8 {
            address: 16,
            len: 2,
            valid: 1,
        }) => {}
        other => panic!("{other:?}"),
    }
    let error = memory.read_str(18, 4).expect_err("the string is not UTF-8");
    let line =
        "string of 4 bytes at address 18 is UTF-8 only for its first 0 bytes; encode it as UTF-8";
    assert_eq!(error.to_string(), line);
    assert!(error.source().is_none());
    for (address, len) in [
        (PAGE - 1, 2),
        (PAGE, 1),
        (PAGE + 1, 0),
        (u32::MAX, u32::MAX),
    ] {
        match memory.read_str(address, len) {
            Err(ReadStrError::Trap(trap)) => assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds),
            other => panic!("{address}, {len}: {other:?}"),
        }
    }
}

#[test]
fn host_functions_pass_on_what_is_wrong_with_a_string() {
    let mut guest = guest();
    let mut read = |address: u32, len: u32| {
        let values = [address, len].map(|word| Value::I32(word.cast_signed()));
        guest.call_values("read", &values)
    };
    assert_eq!(number(read(16, 3)), 3);
    match read(PAGE - 1, 2) {
        Err(CallError::Trap(trap)) => {
            assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds);
            assert!(
                !trap.backtrace().is_empty(),
                "the trap must have the guest's backtrace"
            );
        }
        other => panic!("{other:?}"),
    }
    match read(17, 1) {
        Err(CallError::Host(error)) => match error.downcast_ref() {
            Some(ReadStrError::Utf8 { valid: 0, .. }) => {}
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    assert_eq!(guest.data(), "hé", "only the first read must succeed");
}

#[test]
fn shared_memories_have_the_same_numbers() {
    let ty = MemoryType {
        address: AddrType::I32,
        page: PageSize::Byte,
        min: 9,
        max: Some(9),
        shared: true,
    };
    let memory = SharedMemory::new(&ty).expect("the memory is created");
    memory
        .write_u64(1, 0x0807_0605_0403_0201)
        .expect("address in bounds");
    assert_eq!(
        memory.read_u64(1).expect("address in bounds"),
        0x0807_0605_0403_0201
    );
    assert_eq!(memory.read_u32(5).expect("address in bounds"), 0x0807_0605);
    assert_eq!(memory.read_u16(7).expect("address in bounds"), 0x0807);
    assert_eq!(memory.read_u8(8).expect("address in bounds"), 8);
    memory.write_u32(5, 0xffff_fffe).expect("address in bounds");
    memory.write_u16(3, 0xfffd).expect("address in bounds");
    memory.write_u8(0, 0xfc).expect("address in bounds");
    assert_eq!(
        memory.read_u64(0).expect("address in bounds"),
        0xffff_feff_fd02_01fc
    );
    let outside = [
        memory.read_u8(9).map(drop),
        memory.read_u16(8).map(drop),
        memory.read_u32(6).map(drop),
        memory.read_u64(2).map(drop),
        memory.read_u64(u64::MAX).map(drop),
        memory.write_u8(9, 0),
        memory.write_u16(8, 0),
        memory.write_u32(6, 0),
        memory.write_u64(2, 0),
    ];
    for result in outside {
        let code = result.expect_err("address out of bounds").code();
        assert_eq!(code, TrapCode::MemoryOutOfBounds);
    }
    assert_eq!(
        memory.read_u64(1).expect("address in bounds"),
        0xffff_fffe_fffd_0201
    );
}
