//! What `build.sh` needs to make components. A WIT folder holds one world and, in `deps`, the
//! packages that this world names.
//!
//!     componentize bindings c|go WIT FOLDER
//!     componentize component command|reactor|proxy MODULE COMPONENT [WIT]
//!
//! `bindings` writes source files into a folder. `component` makes a component of a core module
//! that imports WASI preview 1. The adapter implements preview 1 by WASI 0.2: `command` for a
//! program with `_start`, `reactor` for a library that may use all of `wasi:cli`, `proxy` for a
//! library that may use only the interfaces of `wasi:http/proxy`. The WIT folder describes a module
//! whose compiler has not stored the types of its component in it.

use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::Path;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER as COMMAND,
    WASI_SNAPSHOT_PREVIEW1_PROXY_ADAPTER as PROXY,
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as REACTOR,
};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["bindings", language, wit, folder] => bindings(language, wit, Path::new(folder)),
        ["component", adapter, module, component] => make(adapter, module, component, None),
        ["component", adapter, module, component, wit] => {
            make(adapter, module, component, Some(wit))
        }
        _ => bail!(
            "usage: componentize bindings c|go WIT FOLDER\n       \
             componentize component command|reactor|proxy MODULE COMPONENT [WIT]"
        ),
    }
}

fn world(wit: &str) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let world = resolve.select_world(&[package], None)?;
    Ok((resolve, world))
}

fn bindings(language: &str, wit: &str, folder: &Path) -> Result<()> {
    let mut generator = match language {
        "c" => wit_bindgen_c::Opts::default().build(),
        "go" => wit_bindgen_go::Opts::default().build(),
        other => bail!("unknown language \"{other}\"; known: c go"),
    };
    let (mut resolve, world) = world(wit)?;
    let mut files = Files::default();
    generator.generate(&mut resolve, world, &mut files)?;
    for (name, content) in files.iter() {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder"))?;
        fs::write(&path, content).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn make(adapter: &str, module: &str, component: &str, wit: Option<&str>) -> Result<()> {
    let adapter = match adapter {
        "command" => COMMAND,
        "reactor" => REACTOR,
        "proxy" => PROXY,
        other => bail!("unknown adapter \"{other}\"; known: command reactor proxy"),
    };
    let mut wasm = fs::read(module).with_context(|| module.to_owned())?;
    if let Some(wit) = wit {
        let (resolve, world) = world(wit)?;
        embed_component_metadata(&mut wasm, &resolve, world, StringEncoding::UTF8, false)?;
    }
    let wasm = ComponentEncoder::default()
        .validate(true)
        .module(&wasm)?
        .adapter(NAME, adapter)?
        .encode()
        .with_context(|| module.to_owned())?;
    fs::write(component, wasm).with_context(|| component.to_owned())
}
