//! Core modules that describe a component's world: the compiler makes a component of such a module.
//!
//! Such a module has its world in a custom section `component-type`. The imports and exports have
//! names that the crate `wit-component` knows: plain names, such as `wasi:io/streams@0.2.0` and
//! `[method]output-stream.write`, or names of the convention `cm32p2`. That crate makes the
//! component, which is then translated like any other.

use super::join::unsupported_named;
use super::size;
use crate::budget::Budget;
use crate::error::CompileError;
use crate::limits::WORLDS;
use pirn_format::text::one_line;
use std::panic::{AssertUnwindSafe, catch_unwind};
use wasmparser::{Parser, Payload, Validator, WasmFeatures};

/// The custom section that describes a module's world. Languages add a suffix.
const SECTION: &str = "component-type";

/// The prefix of all names of a convention. A module with such names needs the section.
const CONVENTION: &str = "cm32p2";

/// How a core module describes its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum World {
    /// No description: a plain core module.
    None,
    /// A custom section describes the world.
    Section,
    /// The module has names of the convention, but no section.
    NamesOnly,
}

/// Finds the description of a core module's world. A damaged module has none.
pub(super) fn world(wasm: &[u8]) -> World {
    let mut world = World::None;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload {
            Ok(Payload::CustomSection(section)) if section.name().starts_with(SECTION) => {
                return World::Section;
            }
            Ok(Payload::ImportSection(section)) => {
                let mut imports = section.into_imports().flatten();
                if imports.any(|import| import.module.starts_with(CONVENTION)) {
                    world = World::NamesOnly;
                }
            }
            Ok(Payload::ExportSection(section)) => {
                let mut exports = section.into_iter().flatten();
                if exports.any(|export| export.name.starts_with(CONVENTION)) {
                    world = World::NamesOnly;
                }
            }
            Ok(_) => {}
            Err(_) => return World::None,
        }
    }
    world
}

/// Makes a component of a core module with the custom section.
pub(super) fn encode(wasm: &[u8], budget: &Budget) -> Result<Vec<u8>, CompileError> {
    Validator::new_with_features(WasmFeatures::all()).validate_all(wasm)?;
    let mut sections = 0;
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let module = import?.module;
                    if module.starts_with("wasi_") {
                        let what = "a core module with a world and an import that needs an adapter";
                        return Err(unsupported_named(what, module));
                    }
                }
            }
            Payload::CustomSection(section) if section.name().starts_with(SECTION) => {
                sections += 1;
                WORLDS.check(sections)?;
                // The world is a component. The library also knows an older form, in which other
                // bytes are before the component.
                if !section.data().starts_with(b"\0asm") {
                    return Err(CompileError::Component(format!(
                        "the custom section {SECTION} is damaged or of an old form: it does not \
                         begin with \"\\0asm\"; make it again with `wasm-tools component embed`"
                    )));
                }
                size::check(section.data(), section.data_offset(), budget)?;
            }
            _ => {}
        }
    }
    let encoded = catch_unwind(AssertUnwindSafe(|| {
        let encoder = wit_component::ComponentEncoder::default().validate(false);
        encoder.module(wasm)?.encode()
    }));
    match encoded {
        Ok(Ok(component)) => Ok(component),
        Ok(Err(error)) => {
            let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
            Err(CompileError::Component(one_line(chain.join(": "))))
        }
        Err(_) => Err(CompileError::Component(format!(
            "the custom section {SECTION} is damaged"
        ))),
    }
}

/// The error for a module whose names follow the convention, but that lacks the section.
pub(super) fn without_world() -> CompileError {
    CompileError::Component(format!(
        "the core module has names of {CONVENTION} and no custom section {SECTION}; add it with \
         `wasm-tools component embed`"
    ))
}

#[cfg(test)]
mod tests {
    use super::{World, world};

    #[test]
    fn the_world_is_found_by_its_section_or_names() {
        let of = |wat: &str| world(&wat::parse_str(wat).expect("the text is well-formed"));
        assert_eq!(of("(module)"), World::None);
        assert_eq!(
            of(r#"(module (@custom "component-type:x" ""))"#),
            World::Section
        );
        assert_eq!(
            of(r#"(module (import "cm32p2|a:b/c" "f" (func)))"#),
            World::NamesOnly
        );
        assert_eq!(
            of(r#"(module (func (export "cm32p2||f")))"#),
            World::NamesOnly
        );
        assert_eq!(world(b"\0asm\x01\0\0\0\x01"), World::None);
    }
}
