//! `containerd-shim-pirn-v1`: the program that containerd starts for the runtime
//! `io.containerd.pirn.v1`.

#![forbid(unsafe_code)]

use containerd_shimkit::sandbox::InstanceConfig;
use containerd_shimkit::sandbox::cli::{Version, shim_main};
use pirn_format::text::one_line;
use pirn_shim::{Instance, NAME, clean_up};
use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = env::args_os().skip(1).collect();
    let flags = containerd_shim::parse(&args).unwrap_or_default();
    let names_task = [&flags.namespace, &flags.id, &flags.address];
    if !flags.version && !flags.info && names_task.iter().any(|value| value.is_empty()) {
        // The shim library would panic.
        eprintln!(
            "containerd-shim-pirn-v1: it needs -namespace, -id and -address of containerd; use \
             `ctr run --runtime io.containerd.pirn.v1`, or a RuntimeClass of Kubernetes"
        );
        return ExitCode::FAILURE;
    }
    if flags.action == "delete" {
        // containerd runs `delete` after the shim of a container has ended. The shim library only
        // answers, so this code cleans up.
        let config = InstanceConfig {
            namespace: flags.namespace,
            bundle: flags.bundle.into(),
            ..InstanceConfig::default()
        };
        if let Err(error) = clean_up(&flags.id, &config) {
            let error = format_args!("cannot clean up {}: {error:#}", flags.id);
            eprintln!("pirn: {}", one_line(error));
        }
    }
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        revision: "",
    };
    shim_main::<Instance>(NAME, version, None);
    ExitCode::SUCCESS
}
