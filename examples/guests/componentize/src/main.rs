//! Makes a component of a core module: `componentize command|reactor|proxy MODULE COMPONENT`.
//!
//! The first argument chooses the adapter that implements WASI preview 1 by WASI 0.2: `command` for
//! a program with `_start`, `reactor` for a library that may use all of `wasi:cli`, `proxy` for one
//! that may use only what `wasi:http/proxy` offers.

use anyhow::{Context as _, Result, bail};
use std::fs;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as NAME,
    WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER as COMMAND,
    WASI_SNAPSHOT_PREVIEW1_PROXY_ADAPTER as PROXY,
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as REACTOR,
};
use wit_component::ComponentEncoder;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [adapter, module, component] = &arguments[..] else {
        bail!("usage: componentize command|reactor|proxy MODULE COMPONENT");
    };
    let adapter = match &adapter[..] {
        "command" => COMMAND,
        "reactor" => REACTOR,
        "proxy" => PROXY,
        other => bail!("unknown adapter \"{other}\"; known: command reactor proxy"),
    };
    let wasm = fs::read(module).with_context(|| module.clone())?;
    let wasm = ComponentEncoder::default()
        .validate(true)
        .module(&wasm)?
        .adapter(NAME, adapter)?
        .encode()
        .with_context(|| module.clone())?;
    fs::write(component, wasm).with_context(|| component.clone())
}
