//! `containerd-shim-pirn-v1`: the program that containerd starts for the runtime
//! `io.containerd.pirn.v1`.

#![forbid(unsafe_code)]

use containerd_shimkit::sandbox::InstanceConfig;
use containerd_shimkit::sandbox::cli::{Version, shim_main};
use pirn_shim::{Instance, NAME, clean_up};
use std::env;

fn main() {
    let args: Vec<_> = env::args_os().skip(1).collect();
    if let Ok(flags) = containerd_shim::parse(&args)
        && flags.action == "delete"
    {
        // containerd runs `delete` after the shim of a container has ended. The shim library only
        // answers, so this code cleans up.
        let config = InstanceConfig {
            namespace: flags.namespace,
            bundle: flags.bundle.into(),
            ..InstanceConfig::default()
        };
        if let Err(error) = clean_up(&flags.id, &config) {
            eprintln!("pirn: cannot clean up {}: {error:#}", flags.id);
        }
    }
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        revision: "",
    };
    shim_main::<Instance>(NAME, version, None);
}
