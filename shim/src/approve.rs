//! [`approve`]: checks that the policy lets a program run.
//!
//! The shim does not trust the author of an image to supply machine code. So it calls [`approve`]
//! before it compiles or maps the program.

use crate::entry::{Entry, Program, Signable};
use crate::policy::{NativeRule, Policy, SoRule, WasmRule};
use anyhow::{Context as _, Result, bail};
use pirn_signature::Signed;
use std::collections::HashMap;

/// The annotation with which containerd marks the pause container of a pod. containerd overwrites
/// any other value.
const CONTAINER_TYPE: &str = "io.kubernetes.cri.container-type";

/// The value of [`CONTAINER_TYPE`] for the pause container.
const SANDBOX: &str = "sandbox";

/// Checks that the policy lets a program run.
///
/// # Errors
///
/// If the policy refuses the program. The message names the rule.
pub fn approve(
    policy: &Policy,
    entry: &Entry,
    annotations: Option<&HashMap<String, String>>,
) -> Result<()> {
    let checked = match &entry.program {
        Program::Wasm(wasm) => match policy.wasm {
            WasmRule::Any => Ok(()),
            WasmRule::Signed => signed(policy, wasm).map(drop),
        },
        Program::So(so) => approve_so(policy, so),
        Program::Native => approve_native(policy.native, annotations),
    };
    checked.with_context(|| entry.path.display().to_string())
}

fn approve_so(policy: &Policy, so: &Signable) -> Result<()> {
    let Err(unsigned) = signed(policy, so) else {
        return Ok(());
    };
    match policy.so {
        SoRule::Any => Ok(()),
        SoRule::Signed => Err(unsigned.context(
            "it is machine code, and the policy of the node takes only signed machine code",
        )),
        SoRule::Verified => {
            let proven = pirn_verify::verify(&so.bytes).map(drop);
            proven.context("it is unsigned machine code that the verifier does not prove")
        }
    }
}

/// Checks that a trusted key signed these bytes.
fn signed(policy: &Policy, signable: &Signable) -> Result<Signed> {
    if policy.keys.is_empty() {
        bail!("the policy trusts no key; add trust = [\"FILE.pub\"]");
    }
    let Some(signature) = &signable.signature else {
        bail!("it is not signed; add the signature as a file with .minisig after its name");
    };
    Ok(pirn_signature::check(
        &signable.bytes,
        signature,
        &policy.keys,
    )?)
}

fn approve_native(rule: NativeRule, annotations: Option<&HashMap<String, String>>) -> Result<()> {
    let kind = annotations.and_then(|all| all.get(CONTAINER_TYPE));
    match rule {
        NativeRule::Allow => Ok(()),
        NativeRule::Pause if kind.is_some_and(|kind| kind == SANDBOX) => Ok(()),
        NativeRule::Pause => bail!(
            "it is a Linux program, and the policy of the node has native = \"pause\": only the \
             pause container of a pod is one; run it by runc, or set native = \"allow\""
        ),
        NativeRule::Refuse => bail!(
            "it is a Linux program, and the policy of the node has native = \"refuse\"; run it by \
             runc"
        ),
    }
}
