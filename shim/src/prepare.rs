//! [`prepare`]: finds, checks and compiles the program of a container on the host, before the
//! container exists.

use crate::annotations::Wishes;
use crate::approve::approve;
use crate::cache::Cache;
use crate::compile::{compiled, stored};
use crate::entry::{Entry, Image, Program, Signable};
use crate::files::View;
use crate::given::variables;
use crate::policy::{Command, Policy, Server};
use crate::serve::Ports;
use anyhow::{Context as _, Result};
use oci_spec::runtime::Spec;
use pirn_component::Component;
use pirn_runtime::{Module, OpenError};
use pirn_wasi2::http::HANDLE;
use std::path::{Path, PathBuf};

/// The program of a container, ready to start.
pub(crate) enum Work {
    /// A guest.
    Guest(Box<Guest>),
    /// A Linux program.
    Native,
}

/// A guest, mapped and checked, whose container does not exist yet.
pub(crate) struct Guest {
    pub(crate) module: Module,
    pub(crate) role: Role,
    pub(crate) view: View,
    pub(crate) policy: Policy,
}

/// The role of a guest: a command or a server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Role {
    /// A WASI command, which runs once.
    Command(Command),
    /// A `wasi:http` server, which answers requests.
    Server(Server, Ports),
}

/// Reads the policy, then finds, checks, compiles and maps the program of a container. `layer` is
/// the program of an OCI artifact, which is not in a file system.
pub(crate) fn prepare(bundle: &Path, spec: &Spec, layer: Option<Signable>) -> Result<Work> {
    let policy = Policy::of_node()?;
    let annotations = spec.annotations().as_ref();
    let wishes = Wishes::of(annotations)?;
    let root = spec.root().as_ref().context("the spec has no root")?.path();
    let root = bundle.join(root);
    let entry = match layer {
        Some(layer) => Entry {
            path: PathBuf::from("the layer of the artifact"),
            program: Program::Wasm(layer),
        },
        None => Image::open(&root)?.entry(spec, policy.module_bytes_max)?,
    };
    approve(&policy, &entry, annotations)?;
    let module = match &entry.program {
        Program::Native => return Ok(Work::Native),
        Program::So(so) => module(&policy, |cache| stored(cache, &so.bytes)),
        Program::Wasm(wasm) => module(&policy, |cache| compiled(cache, &policy, &wasm.bytes)),
    };
    let module = module.with_context(|| entry.path.display().to_string())?;
    Ok(Work::Guest(Box::new(Guest {
        role: role(&module, &wishes, &policy, spec)?,
        view: View::new(&root, spec)?,
        module,
        policy,
    })))
}

/// Maps the compiled module of an approved program. All containers of the node that run the program
/// map the same file, which `path` finds in the cache.
fn module(policy: &Policy, path: impl Fn(&Cache) -> Result<PathBuf>) -> Result<Module> {
    let cache = Cache::open(policy)?;
    // Mapping a compiled module runs none of its code, so the host may map it.
    let first = path(&cache)?;
    match Module::open(&first) {
        Ok(module) => Ok(module),
        // A crash of the node may have damaged the file, or another process may have removed it.
        Err(OpenError::Format { .. } | OpenError::Read { .. } | OpenError::Changed { .. }) => {
            cache.forget(&first);
            Ok(Module::open(path(&cache)?)?)
        }
        Err(error) => Err(error.into()),
    }
}

fn role(module: &Module, wishes: &Wishes, policy: &Policy, spec: &Spec) -> Result<Role> {
    let is_server = match module.component() {
        None => false,
        Some(_) => {
            let component = Component::new(module).context("cannot read the component")?;
            component.exports().any(|(name, _)| name == HANDLE)
        }
    };
    if !is_server {
        return Ok(Role::Command(wishes.narrow_command(&policy.command)?));
    }
    let process = spec.process().as_ref();
    let env = process.map(variables).unwrap_or_default();
    let ports = Ports {
        public: wishes.port(&env)?,
        admin: wishes.admin_port,
    };
    Ok(Role::Server(wishes.narrow_server(&policy.server)?, ports))
}
