//! Snapshots as files.

use super::{GUEST, Notes, changed, fresh, look, prepare, run, wide_region};
use crate::common;
use pirn_compiler::Options;
use pirn_format::header::HASH_BYTES;
use pirn_format::image::ImageRun;
use pirn_format::metadata::{ConstExpr, ConstOp, Element, ElementItems, Metadata, SegmentMode};
use pirn_format::read::Checked;
use pirn_format::rewrite;
use pirn_runtime::{Module, OpenError, Region, Reset, SnapshotError, Value};

/// The snapshot in its file, opened again.
fn saved(snapshot: &Module) -> Module {
    let bytes = snapshot.to_bytes().expect("it can be saved");
    Module::from_bytes(&bytes).expect("it opens")
}

pub(super) fn so(text: &str, options: &Options) -> Vec<u8> {
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the text is well-formed");
    pirn_compiler::compile(&wasm, options).expect("the module is valid")
}

#[test]
fn a_saved_snapshot_has_the_state_of_the_instance() {
    for reset in common::resets() {
        let region = Region::builder().slots(1).memories(4).tables(3);
        let region = region.reset(reset).build().expect("the region is built");
        for options in common::values::levels() {
            let module = common::wat_with(GUEST, &options);
            let mut instance = fresh(&prepare(&region, &module));
            run(&mut instance, "change", &[Value::I32(0xa7)]);
            let wanted = look(&mut instance);
            let snapshot = instance.snapshot().expect("it can be taken");
            let again = saved(&snapshot);
            drop((snapshot, module));
            assert!(again.is_snapshot());
            let prepared = prepare(&region, &again);
            for round in 0..3 {
                let mut instance = fresh(&prepared);
                assert!(instance.data().is_empty(), "the start function runs again");
                assert_eq!(look(&mut instance), wanted, "{reset:?} {round}");
                run(&mut instance, "change", &[Value::I32(round)]);
                run(&mut instance, "use kept segments", &[]);
                for gone in ["use gone data", "use gone elements", "use active data"] {
                    assert!(instance.call_values(gone, &[]).is_err(), "{gone}");
                }
            }
        }
    }
}

/// The same state gives the same bytes, whatever the instance was restored by, and although the
/// pages of one were written and those of the other come from an image.
#[test]
fn the_same_state_gives_the_same_bytes() {
    let module = common::wat(GUEST);
    let mut files = vec![];
    for reset in common::resets() {
        let region = Region::builder().slots(1).memories(4).tables(3);
        let region = region.reset(reset).build().expect("the region is built");
        let mut instance = fresh(&prepare(&region, &module));
        run(&mut instance, "change", &[Value::I32(3)]);
        let first = instance.snapshot().expect("it can be taken");
        files.push(first.to_bytes().expect("it can be saved"));
        // Of an instance of the snapshot, and of one of the saved snapshot.
        for again in [&first, &saved(&first)] {
            let unchanged = fresh(&prepare(&region, again)).snapshot();
            let bytes = unchanged.expect("it can be taken").to_bytes();
            files.push(bytes.expect("it can be saved"));
        }
    }
    assert!(files.windows(2).all(|two| two[0] == two[1]));
    let of = Checked::new(&files[0]).expect("it is sound");
    let hash = Checked::new(&module.to_bytes().expect("it can be read")).expect("it is sound");
    assert_eq!(
        of.metadata.snapshot.expect("it is one").of,
        hash.header.hash
    );
}

#[test]
fn saved_snapshots_of_saved_snapshots_have_all_changes() {
    let region = wide_region(1);
    let mut module = common::wat(GUEST);
    for n in [3, 5, 7] {
        let mut instance = fresh(&prepare(&region, &module));
        run(&mut instance, "change", &[Value::I32(n)]);
        let wanted = look(&mut instance);
        module = saved(&instance.snapshot().expect("it can be taken"));
        assert_eq!(look(&mut fresh(&prepare(&region, &module))), wanted);
    }
}

/// Without memory, without an image, without code.
#[test]
fn snapshots_of_small_modules_can_be_saved() {
    let region = common::values::region(1);
    let linker = pirn_runtime::Linker::<()>::new();
    for text in [
        "(module)",
        "(module (memory 0) (table 0 funcref))",
        r#"(module (memory (export "memory") 1) (func (export "f")))"#,
        r#"(module (func (export "f") (result i32) (i32.const 5)))"#,
    ] {
        let prepared = region.prepare(&common::wat(text), &linker);
        let instance = prepared.expect("it links").try_instantiate(());
        let snapshot = instance.expect("a slot is free").snapshot();
        let again = saved(&snapshot.expect("it can be taken"));
        let prepared = region.prepare(&again, &linker).expect("it links");
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        if again.exports().any(|(name, _)| name == "f") {
            instance.call_values("f", &[]).expect("it returns");
        }
    }
}

#[test]
fn exports_that_made_the_state_are_removed() {
    let region = wide_region(1);
    let made = |module: &Module, names: &[&str]| {
        let mut instance = fresh(&prepare(&region, module));
        run(&mut instance, "change", &[Value::I32(1)]);
        instance.snapshot_after(names)
    };
    let names = |module: &Module| -> Vec<String> {
        module.exports().map(|(name, _)| name.to_owned()).collect()
    };
    let module = common::wat(GUEST);
    match made(&module, &["change", "chance"]) {
        Err(error @ SnapshotError::NoExport { .. }) => {
            let wanted = "there is no exported function \"chance\" to remove, only look, use kept \
                          segments, use gone data, use gone elements, use active data, five; name \
                          one of them";
            assert_eq!(error.to_string(), wanted);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(region.slots_free(), 1);
    let snapshot = made(&module, &["five", "change"]).expect("it can be taken");
    for snapshot in [&snapshot, &saved(&snapshot)] {
        let mut wanted = names(&module);
        wanted.retain(|name| name != "five" && name != "change");
        assert_eq!(names(snapshot), wanted);
        let mut instance = fresh(&prepare(&region, snapshot));
        assert!(instance.call_values("change", &[Value::I32(1)]).is_err());
        let second = instance.snapshot_after(&["look"]);
        let bytes = second.expect("it can be taken").to_bytes();
        let checked = Checked::new(&bytes.expect("it can be saved")).expect("it is sound");
        let of = checked.metadata.snapshot.expect("it is one");
        assert_eq!(of.made_by, ["five", "change", "look"]);
    }
}

#[test]
fn a_plain_module_is_saved_as_it_was() {
    let bytes = so(GUEST, &Options::default());
    let module = Module::from_bytes(&bytes).expect("it opens");
    assert_eq!(module.to_bytes().expect("it can be read"), bytes);
    // The same bytes from a file that is gone, and then from memory.
    let bytes = so(&GUEST.replacen("first", "third", 1), &Options::default());
    let file = common::file(&bytes);
    let module = Module::open(&file).expect("it opens");
    assert_eq!(module.to_bytes().expect("it can be read"), bytes);
    drop(file);
    assert!(matches!(module.to_bytes(), Err(OpenError::Read { .. })));
    Module::from_bytes(&bytes).expect("it opens");
    assert_eq!(module.to_bytes().expect("it can be read"), bytes);
}

/// The code of a snapshot is read again when it is saved.
#[test]
fn a_file_that_was_replaced_or_removed_is_named() {
    // No other test has this module open.
    let own = GUEST.replacen("first page", "other text", 1);
    let file = common::file(&so(&own, &Options::default()));
    let module = Module::open(&file).expect("it opens");
    let snapshot = changed(&module);
    let other = common::file(&so("(module)", &Options::default()));
    std::fs::rename(&other, &file).expect("it is renamed");
    match snapshot.to_bytes() {
        Err(error @ OpenError::Replaced { .. }) => {
            let error = error.to_string();
            assert!(
                error.contains("was replaced") && !error.contains('\n'),
                "{error}"
            );
        }
        other => panic!("{:?}", other.map(|bytes| bytes.len())),
    }
    drop(file);
    assert!(matches!(snapshot.to_bytes(), Err(OpenError::Read { .. })));
    // The snapshot itself works without the file.
    let mut instance = fresh(&prepare(&wide_region(1), &snapshot));
    run(&mut instance, "look", &[]);
}

#[test]
fn a_damaged_file_is_refused() {
    let bytes = changed(&common::wat(GUEST)).to_bytes();
    let bytes = bytes.expect("it can be saved");
    let refused = |bytes: &[u8]| {
        let error = Module::from_bytes(bytes).expect_err("it is damaged");
        assert!(!error.to_string().contains('\n'), "{error}");
    };
    for len in (0..bytes.len()).step_by(97) {
        refused(&bytes[..len]);
    }
    for at in (0..bytes.len()).step_by(61) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        refused(&damaged);
    }
    // A file for the other architecture, and one for a processor that this one is not.
    for arch in pirn_format::cpu::Arch::ALL {
        let file = so("(module)", &Options::new(arch));
        let checked = Checked::new(&file).expect("it is sound");
        let mut metadata = checked.metadata;
        metadata.snapshot = Some(empty_snapshot());
        let file = rewrite::snapshot(&file, &metadata, &[], &[]).expect("it can be rewritten");
        let opened = Module::from_bytes(&file);
        match arch.name() == std::env::consts::ARCH {
            true => drop(opened.expect("it opens")),
            false => {
                let error = opened.expect_err("it is for another machine").to_string();
                assert!(error.contains(arch.name()), "{error}");
            }
        }
    }
}

fn empty_snapshot() -> pirn_format::metadata::Snapshot {
    pirn_format::metadata::Snapshot {
        of: [0; HASH_BYTES],
        made_by: vec![],
        tables: vec![],
        further: vec![],
    }
}

/// A file with a right hash whose empty image lies where no image can be put.
#[test]
fn a_file_without_a_place_for_an_image_has_no_snapshot() {
    use pirn_format::header::{HASH_OFFSET, HEADER_BYTES, content_hash};
    use pirn_format::sections::Section;
    let so = so("(module)", &Options::default());
    let sound = Checked::new(&so).expect("it is sound");
    let metadata = Metadata {
        snapshot: Some(empty_snapshot()),
        ..sound.metadata
    };
    let at = sound.header_at as usize;
    for vaddr in [0, 1 << 12, 1 << 40, u64::MAX << 12] {
        let mut header = sound.header.clone();
        header.sections[Section::Image as usize].vaddr = vaddr;
        header.hash = [0; HASH_BYTES];
        let mut moved = so.clone();
        moved[at..at + HEADER_BYTES].copy_from_slice(&header.encode());
        let hash = content_hash(&moved, at).expect("the header is there");
        moved[at + HASH_OFFSET..at + HASH_OFFSET + HASH_BYTES].copy_from_slice(&hash);
        Checked::new(&moved).expect("an empty image may lie anywhere");
        let made = rewrite::snapshot(&moved, &metadata, &[], &[]);
        let refused = made.expect_err("there is no place").to_string();
        assert!(!refused.contains('\n'), "{vaddr:#x}: {refused}");
    }
    let made = rewrite::snapshot(&so, &metadata, &[], &[]).expect("this one has a place");
    Checked::new(&made).expect("it is sound");
}

/// Files with a right hash whose parts contradict each other.
#[test]
fn parts_that_contradict_each_other_are_refused() {
    let bytes = changed(&common::wat(GUEST)).to_bytes();
    let bytes = bytes.expect("it can be saved");
    let sound = Checked::new(&bytes).expect("it is sound");
    let found = |what: &str, runs: &[ImageRun], metadata: &Metadata| {
        let image = sound.header.section(pirn_format::sections::Section::Image);
        let pages = pirn_format::read::slice(&bytes, image).expect("it is in the file");
        let file = rewrite::snapshot(&bytes, metadata, runs, &[pages]);
        let file = file.expect("it can be rewritten");
        let opened = Module::from_bytes(&file).map_err(|error| error.to_string());
        match what {
            "" => drop(opened.expect("it is sound")),
            what => {
                let error = opened.expect_err(what);
                assert!(
                    error.contains(what) && !error.contains('\n'),
                    "{what}: {error}"
                );
            }
        }
    };
    let refused = |what: &str, runs: &[ImageRun], change: fn(&mut Metadata)| {
        let mut metadata = sound.metadata.clone();
        change(&mut metadata);
        found(what, runs, &metadata);
    };
    fn of(metadata: &mut Metadata) -> &mut pirn_format::metadata::Snapshot {
        metadata.snapshot.as_mut().expect("it is one")
    }
    let runs = &sound.runs[..];
    refused("", runs, |_| ());
    refused("the runs of its image", &runs[1..], |_| ());
    refused("the runs of its image", runs, |m| of(m).further[0].clear());
    refused("the runs of its image", runs, |m| m.memories[1].min = 1);
    refused("the runs of its image", runs, |m| m.memories[0].min = 1);
    refused("the runs of its image", runs, |m| {
        of(m).further[0][0].pages = u32::MAX;
    });
    refused("images of further memories", runs, |m| {
        drop(of(m).further.pop());
    });
    refused("tables of a snapshot", runs, |m| drop(of(m).tables.pop()));
    refused("elements, its size is", runs, |m| m.tables[0].min = 1);
    refused("(ref i31), expected funcref", runs, |m| {
        of(m).tables[0][0] = Element::I31(1);
    });
    refused("expected anyref", runs, |m| {
        of(m).tables[1][0] = Element::Func(1);
    });
    refused("is null, against its type", runs, |m| {
        of(m).tables[2][0] = Element::Null;
    });
    refused("is null, against its type", runs, |m| {
        of(m).tables[2].truncate(1);
    });
    refused("it has no reference", runs, |m| {
        of(m).tables[0][0] = Element::Func(0);
    });
    refused("referred function", runs, |m| {
        of(m).tables[0][0] = Element::Func(u32::MAX);
    });
    refused("its size exceeds its maximum", runs, |m| {
        m.memories[0].max = Some(4);
    });
    refused("its size exceeds its maximum", runs, |m| {
        m.tables[0].max = Some(4);
    });
    refused("an active segment", runs, |m| {
        m.data[0].mode = active();
    });
    refused("an active segment", runs, |m| {
        m.elements[0].mode = active();
    });
    refused("a start function", runs, |m| {
        let mut address_taken = m.address_taken.iter();
        let is_start = |func: &&u32| {
            let mut values = m.func_type(m.funcs[**func as usize]).values();
            values.next().is_none()
        };
        m.start = address_taken.find(is_start).copied();
        assert!(m.start.is_some(), "the guest has a start function");
    });
    // The order is that of the guest's globals.
    let values = [
        ("(ref 0), expected i32", ConstOp::RefFunc(1)),
        ("(ref 0), expected i64", ConstOp::RefFunc(1)),
        ("i32, expected f32", ConstOp::I32(1)),
        ("null, expected f64", ConstOp::RefNull),
        ("i64, expected v128", ConstOp::I64(1)),
        ("i64, expected funcref", ConstOp::I64(4096)),
        ("null, expected (ref 0)", ConstOp::RefNull),
        ("(ref 0), expected anyref", ConstOp::RefFunc(1)),
    ];
    for (global, (what, op)) in values.into_iter().enumerate() {
        let mut metadata = sound.metadata.clone();
        metadata.global_inits[global] = ConstExpr(vec![op]);
        found(what, runs, &metadata);
    }
    refused("i64, expected a reference", runs, |m| {
        m.elements[1].items = ElementItems::Exprs(vec![ConstExpr(vec![ConstOp::I64(1)])]);
    });
}

fn active() -> SegmentMode {
    SegmentMode::Active {
        index: 0,
        offset: ConstExpr(vec![ConstOp::I32(0)]),
    }
}

/// A snapshot has the data of its instance, also if the region maps the image of the first memory
/// and copies it.
#[test]
fn large_images_are_saved_whole() {
    const LARGE: &str = r#"(module (memory (export "memory") 128)
      (func (export "fill") (local $at i32)
        (loop $next
          (i32.store (local.get $at) (i32.add (local.get $at) (i32.const 1)))
          (local.set $at (i32.add (local.get $at) (i32.const 8192)))
          (br_if $next (i32.lt_u (local.get $at) (i32.const 8380000))))))"#;
    let linker = pirn_runtime::Linker::<Notes>::new();
    let module = common::wat(LARGE);
    let mut files = vec![];
    for reset in [Reset::Scanned, Reset::Decommitted] {
        let region = Region::builder().slots(1).reset(reset);
        let region = region.memory_bytes_max(8 << 20).build();
        let Ok(region) = region else { continue };
        let prepared = region.prepare(&module, &linker).expect("it links");
        let mut instance = fresh(&prepared);
        run(&mut instance, "fill", &[]);
        let wanted = instance.memory().as_slice().len();
        let again = saved(&instance.snapshot().expect("it can be taken"));
        let prepared = region.prepare(&again, &linker).expect("it links");
        for _ in 0..2 {
            let mut instance = fresh(&prepared);
            assert_eq!(instance.memory().as_slice().len(), wanted);
            for at in (0..8_380_000).step_by(8192) {
                let mut memory = instance.memory_mut();
                assert_eq!(memory.read_u32(at).expect("it is in the memory"), at + 1);
                memory.write_u32(at, 0).expect("it is in the memory");
            }
        }
        files.push(again.to_bytes().expect("it can be read"));
    }
    assert!(files.windows(2).all(|two| two[0] == two[1]));
}
