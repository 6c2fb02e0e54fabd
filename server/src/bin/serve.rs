//! `pirn-serve`: the server, with guests in pirn's slots.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result};
use pirn_runtime::{Module, PublicKey};
use pirn_server::Config;
use pirn_server::config::Route;
use pirn_server::grants::{GrantedDir, Grants};
use pirn_server::pirn::{self, GuestNumber, Pirn};
use pirn_server::program::serve;
use pirn_server::refusal;
use pirn_signature::{SIGNED_BYTES_MAX, read_regular};
use pirn_wasi2::{BaseLimits, MemoryBase};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The magic number of an ELF file. A compiled module starts with it.
const ELF: &[u8] = b"\x7fELF";

fn main() -> ExitCode {
    serve("pirn-serve", engine)
}

/// Opens the modules of a configuration, and makes slots for their guests, or reuses the slots of
/// the old engine.
fn engine(config: &Config, old: Option<&Pirn>) -> Result<Pirn> {
    let keys = keys(config)?;
    let mut bases = HashMap::new();
    let mut all = vec![];
    for route in &config.routes {
        let granted = grants(config, route, &mut bases).with_context(|| route.origin.clone())?;
        let module = open(config, route, &granted, keys.as_deref());
        let module = module.with_context(|| route.origin.clone())?;
        all.push((module, granted));
    }
    let (modules, granted): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    let settings = config.settings.clone();
    let engine = match old {
        Some(old) => old.renewed(settings, &modules, |_| Ok(())),
        None => Pirn::new(settings, &modules, |_| Ok(())),
    };
    let mut engine = engine.map_err(|error| match error.downcast_ref::<GuestNumber>() {
        Some(guest) => {
            let origin = config.routes[guest.0].origin.clone();
            refusal(&error, "--memory-max").context(origin)
        }
        None => error,
    })?;
    for (number, (route, granted)) in config.routes.iter().zip(&granted).enumerate() {
        if let Some(deadline) = route.deadline {
            engine.set_deadline(number, deadline);
        }
        engine.allow(number, granted);
    }
    tracing::info!("{}", engine.region().describe());
    Ok(engine)
}

/// The keys that must have signed each module. `None` if modules need no signature.
fn keys(config: &Config) -> Result<Option<Vec<PublicKey>>> {
    let Some(paths) = &config.trust else {
        return Ok(None);
    };
    let keys = paths.iter().map(|path| {
        let key = PublicKey::read(path);
        key.with_context(|| format!("--trust {}", path.display()))
    });
    keys.collect::<Result<_>>().map(Some)
}

/// The grants of a route's guest. Routes share the content of a directory or an archive.
fn grants(
    config: &Config,
    route: &Route,
    bases: &mut HashMap<PathBuf, MemoryBase>,
) -> Result<Grants> {
    let mut grants = Grants::default();
    for server in &route.http_allow {
        grants.servers.add(&server.0)?;
    }
    for dir in &route.memory_dirs {
        let base = match &dir.content {
            None => MemoryBase::empty(),
            Some(path) => match bases.get(path) {
                Some(base) => base.clone(),
                None => {
                    let base = MemoryBase::open(path, &BaseLimits::default());
                    let base = base.with_context(|| format!("--memory-dir {}", dir.guest))?;
                    bases.insert(path.clone(), base.clone());
                    base
                }
            },
        };
        grants.memory_dirs.push(GrantedDir {
            path: dir.guest.clone(),
            base,
            limits: config.memory_dir,
        });
    }
    Ok(grants)
}

/// The module of a route, initialised if the route has `warm`. Errors name the module.
fn open(
    config: &Config,
    route: &Route,
    grants: &Grants,
    keys: Option<&[PublicKey]>,
) -> Result<Module> {
    let module = match keys {
        Some(keys) => read_signed(&route.module, keys)?,
        None => read(&route.module)?,
    };
    match route.warm {
        true => pirn::warm(
            &module,
            &config.settings,
            grants,
            config.warm_deadline,
            |_| Ok(()),
        )
        .with_context(|| name(&route.module)),
        false => Ok(module),
    }
}

/// Opens a compiled module that one of the keys signed.
fn read_signed(path: &Path, keys: &[PublicKey]) -> Result<Module> {
    // This check of the name only gives a better message. In any case, the bytes must be signed.
    let name = path.extension().unwrap_or_default();
    if name == "wasm" || name == "wat" {
        anyhow::bail!(
            "{}: it is not compiled, and with --trust only signed modules are served; compile it \
             by `aotc --sign`",
            path.display()
        );
    }
    Ok(Module::open_signed(path, keys)?)
}

/// Opens a compiled module, or compiles a WebAssembly module first. Refuses pipes, sockets and
/// devices, which might block or never end.
fn read(path: &Path) -> Result<Module> {
    let bytes = read_regular(path, SIGNED_BYTES_MAX).with_context(|| name(path))?;
    if bytes.starts_with(ELF) {
        return Ok(Module::open(path)?);
    }
    let compiled = compile(&bytes).with_context(|| name(path))?;
    Module::from_bytes(&compiled).with_context(|| name(path))
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(feature = "compiler")]
fn compile(bytes: &[u8]) -> Result<Vec<u8>> {
    let wasm = pirn_compiler::parse_text(bytes)?;
    Ok(pirn_compiler::compile(
        &wasm,
        &pirn_compiler::Options::default(),
    )?)
}

#[cfg(not(feature = "compiler"))]
fn compile(_: &[u8]) -> Result<Vec<u8>> {
    anyhow::bail!("it is not compiled, and this pirn-serve has no compiler; run `aotc` first")
}
