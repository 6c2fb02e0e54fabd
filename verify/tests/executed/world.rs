//! [`World`]: the memory of one instance, at the world's own addresses.
//!
//! Worlds of one module differ in everything that a guest must not learn. These secrets are the
//! addresses of the context, of tables, of the stack and of the text. They are also the identities
//! of types and tags, references of the host, and the private fields of the context. In the second
//! world, each secret has the complement of its bits in the first world, where possible. In the
//! third world, each secret is random.
//!
//! ```text
//!     4 GiB  context, below it the instance area, above it memory 0
//!    14 GiB  text
//!    18 GiB  tables
//!    22 GiB  stack
//!    26 GiB  the caller's code and the routines of the runtime: never mapped
//! ```
//!
//! # Safety
//!
//! A world owns its reservation, and each pointer into it comes from a mapping that `World::new`
//! made. No reference to that memory lives while a guest runs.
#![allow(unsafe_code)]

use crate::random::Random;
use pirn_format::layout::{
    CONTEXT_COPY, CONTEXT_EXIT, CONTEXT_FILL, CONTEXT_FUEL, CONTEXT_HOST_CALL, CONTEXT_MEMORY,
    GUARD_BYTES, IMPORT_CODE, IMPORT_HOST, IMPORT_INSTANCE, IMPORT_VMCTX, MEMORY_BASE,
    MEMORY_BYTES, MEMORY_REACH_BYTES, TABLE_BASE, TABLE_ELEMENTS, WASM_PAGE_BYTES,
};
use pirn_format::metadata::Metadata;
use pirn_format::read::Checked;
use pirn_format::types::{HeapType, ValType};
use std::ptr;
use std::slice;

/// Bytes after the base of a memory that code may access.
pub(crate) const REACH: u64 = MEMORY_REACH_BYTES + GUARD_BYTES;

const PAGE: u64 = 4096;
const GIB: u64 = 1 << 30;

/// Bytes of the stack.
pub(crate) const STACK_BYTES: u64 = 64 << 10;

/// Distances from the base of memory 0 at which bytes are accessible, and their number. The last
/// range ends at the end of the reservation.
pub(crate) const MEMORY: [(u64, u64); 4] = [
    (0, WASM_PAGE_BYTES),
    (0x8000_0000 - PAGE, 2 * PAGE),
    (MEMORY_REACH_BYTES - PAGE, 2 * PAGE),
    (REACH - PAGE, PAGE),
];

/// References of the host that a world has.
const EXTERNS: u64 = 4;

/// A table of the module.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) base: u64,
    pub(crate) elements: u64,
    /// Whether the table may be empty.
    is_flexible: bool,
}

pub(crate) struct World {
    /// The world's number, from 0.
    pub(crate) number: usize,
    pub(crate) vmctx: u64,
    /// Lowest byte of the instance area.
    pub(crate) area: u64,
    pub(crate) text: u64,
    pub(crate) text_bytes: u64,
    pub(crate) tables: Vec<Table>,
    /// First byte of the page that has the tables.
    tables_at: u64,
    /// End of the stack.
    pub(crate) stack: u64,
    /// Addresses of the caller's code, of the exit routine, of the routine for host calls, and of
    /// the routine that copies and fills. Nothing is mapped there.
    pub(crate) caller: u64,
    pub(crate) exit: u64,
    pub(crate) host: u64,
    pub(crate) bulk: u64,
    pub(crate) type_ids: Vec<u32>,
    /// Addresses of the records of functions that can be referred to.
    pub(crate) records: Vec<u64>,
    externs: [u64; EXTERNS as usize],
    /// A second mapping of the text, which can be written to.
    alias: *mut u8,
    /// The contents of the instance area and the tables before a run.
    image: Vec<u8>,
    table_image: Vec<u8>,
    reservation: (*mut u8, usize),
}

impl World {
    /// Maps a world of a module. All worlds of a module need the same seed, and worlds of different
    /// modules need different seeds.
    pub(crate) fn new(checked: &Checked, text: &[u8], number: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut place = |region: u64| {
            const PAGES: u64 = 1 << 19;
            let (first, third) = (random.below(PAGES), random.below(PAGES));
            let page = [first, !first & (PAGES - 1), third][number];
            region * GIB + page * PAGE
        };
        let bytes = (34 * GIB) as usize;
        // The upper bits differ, too. The kernel chooses another place if this place is in use.
        let high = [0x0555, 0x0aaa, 0x0cc0][number] << 32;
        let reservation = map_near(high + ((seed % 128) << 37), bytes);
        let start = (reservation as u64).next_multiple_of(4 * GIB);
        let [vmctx, text_at, tables_at, stack, outside] =
            [4, 14, 18, 22, 26].map(|region| start + place(region));
        let area = vmctx - u64::from(checked.layout.bytes());
        let mut world = Self {
            number,
            vmctx,
            area,
            text: text_at,
            text_bytes: text.len() as u64,
            tables: vec![],
            tables_at,
            stack,
            caller: outside + 16,
            exit: outside + 0x1020,
            host: outside + 0x2030,
            bulk: outside + 0x3040,
            type_ids: vec![],
            records: vec![],
            externs: [0; EXTERNS as usize],
            alias: ptr::null_mut(),
            image: vec![],
            table_image: vec![],
            reservation: (reservation, bytes),
        };
        world.map_text(text);
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let low = area & !(PAGE - 1);
        map(low as *mut u8, (vmctx - low) as usize, writable, -1);
        for (at, bytes) in MEMORY {
            map((vmctx + at) as *mut u8, bytes as usize, writable, -1);
        }
        map(tables_at as *mut u8, PAGE as usize, writable, -1);
        let low = stack - STACK_BYTES;
        map(low as *mut u8, STACK_BYTES as usize, writable, -1);
        world.fill(checked, &mut Random(seed ^ 1));
        world
    }

    fn map_text(&mut self, text: &[u8]) {
        let bytes = text.len().next_multiple_of(PAGE as usize);
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"text".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(file >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the descriptor was just opened.
        let resized = unsafe { libc::ftruncate(file, bytes as libc::off_t) };
        assert_eq!(resized, 0, "{}", std::io::Error::last_os_error());
        let executable = libc::PROT_READ | libc::PROT_EXEC;
        map(self.text as *mut u8, bytes, executable, file);
        self.alias = map(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            file,
        );
        // SAFETY: the mappings keep the file.
        unsafe { libc::close(file) };
        self.write_text(0, text);
    }

    /// Changes bytes of the text.
    pub(crate) fn write_text(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.text_bytes as usize);
        // SAFETY: the second mapping of the text has these bytes, and no guest runs.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.alias.add(at), bytes.len()) };
    }

    /// Computes the contents of the instance area and the tables.
    fn fill(&mut self, checked: &Checked, random: &mut Random) {
        let (metadata, layout) = (&checked.metadata, &checked.layout);
        let number = self.number;
        let mut secret = || {
            let (first, third) = (random.next(), random.next());
            [first, !first, third][number]
        };
        let words = layout.bytes() as usize / 8;
        self.image = (0..words).flat_map(|_| secret().to_le_bytes()).collect();
        self.table_image = (0..PAGE / 8).flat_map(|_| secret().to_le_bytes()).collect();
        self.externs = std::array::from_fn(|_| secret() << 3 & !(0xffff << 48) | 4);
        let salt = secret() as u32 & 0xffff_ff00;
        let types = &metadata.types;
        self.type_ids = types
            .iter()
            .map(|ty| {
                let first = types.iter().position(|other| other == ty);
                salt | first.expect("a type equals itself") as u32
            })
            .collect();
        let table_shift = secret() % 16;
        let mut at = self.tables_at + 256 + 8 * table_shift;
        for ty in &metadata.tables {
            let elements = ty.min.max(ty.max.unwrap_or(3).min(3));
            self.tables.push(Table {
                base: at,
                elements,
                is_flexible: ty.min == 0,
            });
            at += 8 * (elements + 5);
        }
        assert!(at < self.tables_at + PAGE, "a module with few tables");
        let records = 0..metadata.address_taken.len() as u32;
        self.records = records.map(|at| self.field(layout.funcref(at))).collect();
        self.fill_area(checked);
        self.fill_tables(checked);
    }

    fn fill_tables(&mut self, checked: &Checked) {
        let tables = self.tables.clone().into_iter().enumerate();
        for (index, table) in tables {
            let ty = checked.metadata.tables[index];
            let at = checked.layout.table(index as u32);
            self.set(at + TABLE_BASE, table.base);
            self.set(at + TABLE_ELEMENTS, table.elements);
            // The first element of an empty table is null.
            for element in 0..table.elements.max(1) {
                let value = match table.elements {
                    0 => 0,
                    _ => self.reference(ty.element, element),
                };
                let at = (table.base - self.tables_at + 8 * element) as usize;
                self.table_image[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
    }

    /// Sets the number of elements of tables that may be empty.
    pub(crate) fn resize_tables(&mut self, checked: &Checked, elements: u64) {
        let flexible = self.tables.iter_mut().filter(|table| table.is_flexible);
        let mut has_changed = false;
        for table in flexible {
            has_changed |= std::mem::replace(&mut table.elements, elements) != elements;
        }
        if has_changed {
            self.fill_tables(checked);
        }
    }

    /// Addresses that a guest must not learn.
    pub(crate) fn addresses(&self) -> [u64; 9] {
        let table = self
            .tables
            .first()
            .map_or(self.tables_at, |table| table.base);
        let record = self.records.first().copied().unwrap_or(self.area);
        let stack = self.stack - 1024;
        [
            self.vmctx,
            self.text,
            table,
            stack,
            self.exit,
            record,
            self.externs[0],
            self.host,
            self.bulk,
        ]
    }

    fn fill_area(&mut self, checked: &Checked) {
        let (metadata, layout) = (&checked.metadata, &checked.layout);
        let imported = metadata.imported();
        let (vmctx, text) = (self.vmctx, self.text);
        let code = |function: u32| text + u64::from(metadata.code[function as usize]);
        for (at, value) in [
            (CONTEXT_EXIT, self.exit),
            (CONTEXT_HOST_CALL, self.host),
            (CONTEXT_COPY, self.bulk),
            (CONTEXT_FILL, self.bulk),
            (CONTEXT_FUEL, 1 << 40),
            (CONTEXT_MEMORY + MEMORY_BASE, vmctx),
            (CONTEXT_MEMORY + MEMORY_BYTES, WASM_PAGE_BYTES),
        ] {
            self.set(at, value);
        }
        for index in 0..imported.funcs {
            let at = layout.import(index);
            self.set(at + IMPORT_CODE, code(index));
            self.set(at + IMPORT_VMCTX, self.field(at));
            self.set(at + IMPORT_INSTANCE, vmctx);
            self.set(at + IMPORT_HOST, self.host_number(index));
        }
        for (index, id) in self.type_ids.clone().into_iter().enumerate() {
            let at = (self.field(layout.type_id(index as u32)) - self.area) as usize;
            self.image[at..at + 4].copy_from_slice(&id.to_le_bytes());
        }
        for (position, function) in metadata.address_taken.iter().enumerate() {
            let at = layout.funcref(position as u32);
            let context = match *function < imported.funcs {
                true => self.field(layout.import(*function)),
                false => vmctx,
            };
            self.set(at, code(*function));
            self.set(at + 8, context);
            let ty = metadata.funcs[*function as usize];
            self.set(at + 16, u64::from(self.type_ids[ty as usize]));
        }
        for tag in 0..metadata.tags.len() as u32 {
            self.set(layout.tag(tag), self.field(layout.tag(tag)));
        }
        for (index, ty) in metadata.globals.iter().enumerate() {
            let at = layout.global(index as u32);
            let value = match ty.content {
                ValType::Ref(_) => self.reference(ty.content, 0),
                _ => 0x8000_0001_0000_8000 + 16 * index as u64,
            };
            self.set(at, value);
            self.set(at + 8, value >> 7);
        }
    }

    /// The address of a field at a negative distance from the context's end.
    pub(crate) fn field(&self, distance: i32) -> u64 {
        self.vmctx.wrapping_add_signed(distance.into())
    }

    /// The `FuncImport::host` of an imported function.
    pub(crate) fn host_number(&self, import: u32) -> u64 {
        (self.externs[1] & 0xffff_0000) | (64 * u64::from(import))
    }

    fn set(&mut self, distance: i32, value: u64) {
        let at = (self.field(distance) - self.area) as usize;
        self.image[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// A reference of a type. Equal numbers give the same reference in each world.
    pub(crate) fn reference(&self, ty: ValType, number: u64) -> u64 {
        let is_function = matches!(ty.heap(), Some(heap) if heap.top() == HeapType::Func);
        match ty {
            ValType::Ref(reference) if reference.nullable && number % 3 == 1 => 0,
            _ if is_function && self.records.is_empty() => 0,
            _ if is_function => self.records[number as usize % self.records.len()],
            _ => self.externs[(number % EXTERNS) as usize],
        }
    }

    /// The number of a reference; `None` if the word is no reference. The number is the same in
    /// each world.
    pub(crate) fn number_of(&self, reference: u64) -> Option<u64> {
        if reference == 0 {
            return Some(0);
        }
        let record = self.records.iter().position(|record| *record == reference);
        let of_host = self.externs.iter().position(|of| *of == reference);
        record
            .map(|at| 1 + at as u64)
            .or(of_host.map(|at| 1000 + at as u64))
    }

    /// Sets the instance area, the tables and memory 0 to their contents before a run.
    pub(crate) fn reset(&mut self, memory: &[u8], fuel: i64) {
        self.set(CONTEXT_FUEL, fuel.cast_unsigned());
        let mut at = 0;
        // SAFETY: `new` has mapped these ranges for writing, and no guest runs.
        unsafe {
            let (image, tables) = (&self.image, &self.table_image);
            ptr::copy_nonoverlapping(image.as_ptr(), self.area as *mut u8, image.len());
            ptr::copy_nonoverlapping(tables.as_ptr(), self.tables_at as *mut u8, tables.len());
            for (distance, bytes) in MEMORY {
                let to = (self.vmctx + distance) as *mut u8;
                let from = &memory[at..at + bytes as usize];
                if slice::from_raw_parts(to, from.len()) != from {
                    ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
                }
                at += bytes as usize;
            }
        }
    }

    /// Accessible bytes of memory 0, one range after another.
    pub(crate) fn memory(&self) -> [&[u8]; MEMORY.len()] {
        MEMORY.map(|(at, bytes)| {
            // SAFETY: `new` has mapped this range, and no guest runs.
            unsafe { slice::from_raw_parts((self.vmctx + at) as *const u8, bytes as usize) }
        })
    }

    /// The word at an address of the instance area, the tables or the stack.
    pub(crate) fn word(&self, at: u64) -> u64 {
        let low = self.stack - STACK_BYTES;
        let is_within = |low: u64, high: u64| (low..=high - 8).contains(&at);
        assert!(
            is_within(self.area, self.vmctx)
                || is_within(self.tables_at, self.tables_at + PAGE)
                || is_within(low, self.stack)
        );
        // SAFETY: `new` has mapped these ranges.
        unsafe { (at as *const u64).read_unaligned() }
    }

    /// Writes a word of the stack.
    pub(crate) fn push(&mut self, at: u64, word: u64) {
        let low = self.stack - STACK_BYTES;
        assert!((low..=self.stack - 8).contains(&at), "{at:#x}");
        // SAFETY: `new` has mapped the stack for writing.
        unsafe { (at as *mut u64).write_unaligned(word) };
    }

    /// The words of globals, tables and fuel that a guest can see. An error names a word that code
    /// must not change.
    pub(crate) fn visible(
        &self,
        metadata: &Metadata,
        checked: &Checked,
    ) -> Result<Vec<u64>, String> {
        let mut image = self.image.clone();
        let mut found = vec![];
        let layout = &checked.layout;
        let mut take = |world: &Self, distance: i32, is_reference: bool| {
            let address = world.field(distance);
            let at = (address - world.area) as usize;
            let word = world.word(address);
            image[at..at + 8].copy_from_slice(&word.to_le_bytes());
            match is_reference.then(|| world.number_of(word)) {
                None => found.push(word),
                Some(Some(number)) => found.push(number),
                Some(None) => return Err(format!("a global has {word:#x}, which is no reference")),
            }
            Ok(())
        };
        for (index, ty) in metadata.globals.iter().enumerate() {
            let at = layout.global(index as u32);
            let is_reference = matches!(ty.content, ValType::Ref(_));
            if ty.mutable {
                take(self, at, is_reference)?;
            }
            if ty.mutable && !is_reference {
                take(self, at + 8, false)?;
            }
        }
        if metadata.fuel {
            take(self, CONTEXT_FUEL, false)?;
        }
        let area = image.len() as u64 / 8;
        for word in 0..area {
            let at = word as usize * 8;
            let now = self.word(self.area + 8 * word).to_le_bytes();
            if image[at..at + 8] != now {
                let distance = -i64::from(layout.bytes()) + 8 * word.cast_signed();
                return Err(format!("word {distance} of the instance has changed"));
            }
        }
        self.visible_tables(metadata, &mut found)?;
        Ok(found)
    }

    fn visible_tables(&self, metadata: &Metadata, found: &mut Vec<u64>) -> Result<(), String> {
        for at in (self.tables_at..self.tables_at + PAGE).step_by(8) {
            let word = self.word(at);
            let is_in = |table: &Table| (table.base..table.base + 8 * table.elements).contains(&at);
            let old = &self.table_image[(at - self.tables_at) as usize..][..8];
            match self.tables.iter().position(is_in) {
                Some(_) if metadata.tables_change => match self.number_of(word) {
                    Some(number) => found.push(number),
                    None => return Err(format!("a table has {word:#x}, which is no reference")),
                },
                _ if word.to_le_bytes() != old => {
                    return Err("a word beside the tables has changed".to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let (at, bytes) = self.reservation;
        let text = (self.text_bytes as usize).next_multiple_of(PAGE as usize);
        // SAFETY: the world owns both mappings, and nothing else has pointers to them.
        unsafe {
            libc::munmap(at.cast(), bytes);
            libc::munmap(self.alias.cast(), text);
        }
    }
}

/// Reserves bytes at an address, or elsewhere if the address is in use.
fn map_near(hint: u64, bytes: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: without `MAP_FIXED`, the kernel replaces no mapping.
    let found = unsafe { libc::mmap(hint as *mut _, bytes, libc::PROT_NONE, flags, -1, 0) };
    assert!(
        found != libc::MAP_FAILED,
        "{}",
        std::io::Error::last_os_error()
    );
    found.cast()
}

/// Maps bytes anywhere, or at an address within a reservation of this file.
fn map(at: *mut u8, bytes: usize, protection: i32, file: i32) -> *mut u8 {
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    let sharing = match file {
        -1 => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        _ => libc::MAP_SHARED,
    };
    // SAFETY: a fixed address lies in the caller's reservation, which has no other use there.
    let found = unsafe { libc::mmap(at.cast(), bytes, protection, fixed | sharing, file, 0) };
    assert!(
        found != libc::MAP_FAILED,
        "{}",
        std::io::Error::last_os_error()
    );
    found.cast()
}
