//! Writes an OCI image of a few files, for `ctr image import`, without a daemon or a registry.
//!
//! ```sh
//! cargo run --example oci-image -- hello.tar localhost/hello:1 /hello.wasm=hello.wasm
//! ```
//!
//! The first file is the entry point. Options follow the image name. `--user=UID[:GID]` sets the
//! user of the container. `--artifact` makes an OCI artifact: the layer is the file itself
//! (`application/wasm`), instead of a file system. `--signature=FILE` annotates that layer with the
//! text of its signature.

use sha2::{Digest as _, Sha256};
use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::process::ExitCode;

const USAGE: &str = "usage: oci-image OUT.tar NAME:TAG [--artifact] [--signature=FILE] \
                     [--user=UID[:GID]] /PATH=FILE...";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oci-image: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let [out, name, rest @ ..] = args else {
        return Err(USAGE.into());
    };
    let (options, files): (Vec<&String>, Vec<_>) = rest.iter().partition(|t| t.starts_with("--"));
    let is_artifact = options.iter().any(|option| *option == "--artifact");
    let value = |name: &str| options.iter().find_map(|option| option.strip_prefix(name));
    let user = value("--user=");
    let annotations = match value("--signature=") {
        None => String::new(),
        Some(file) => {
            let text = String::from_utf8(read(file)?)?;
            format!(r#","annotations":{{"io.pirn.signature":{text:?}}}"#)
        }
    };
    let files = files.iter().map(|text| match text.split_once('=') {
        Some((path, file)) if path.starts_with('/') => Ok((path, file)),
        _ => Err(USAGE),
    });
    let files = files.collect::<std::result::Result<Vec<_>, _>>()?;
    let (first, source) = files.first().ok_or(USAGE)?;
    let (media, layer) = match is_artifact {
        true => ("application/wasm", read(source)?),
        false => (
            "application/vnd.oci.image.layer.v1.tar",
            file_system(&files)?,
        ),
    };
    // The configuration lists the digest of each file system. An artifact has no file system.
    let file_systems = match is_artifact {
        true => String::new(),
        false => format!("{:?}", digest(&layer)),
    };
    let config = format!(
        concat!(
            r#"{{"architecture":"{}","os":"linux","config":{{"Entrypoint":[{:?}],"User":{:?}}},"#,
            r#""rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#
        ),
        architecture(),
        first,
        user.unwrap_or("0"),
        file_systems
    );
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{MANIFEST}","config":{},"layers":[{}]}}"#,
        described(
            "application/vnd.oci.image.config.v1+json",
            config.as_bytes(),
            ""
        ),
        described(media, &layer, &annotations)
    );
    let platform = format!(
        r#","platform":{{"architecture":"{}","os":"linux"}}"#,
        architecture()
    );
    let named = format!(r#","annotations":{{"io.containerd.image.name":{name:?}}}"#);
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
        described(MANIFEST, manifest.as_bytes(), &(platform + &named))
    );
    let file = File::create(out).map_err(|error| format!("cannot write {out}: {error}"))?;
    let mut tar = tar::Builder::new(file);
    append(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    append(&mut tar, "index.json", index.as_bytes())?;
    for blob in [&layer, config.as_bytes(), manifest.as_bytes()] {
        let path = format!("blobs/sha256/{}", &digest(blob)["sha256:".len()..]);
        append(&mut tar, &path, blob)?;
    }
    tar.finish()?;
    Ok(())
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

fn read(file: &str) -> Result<Vec<u8>> {
    Ok(fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))?)
}

/// A layer with the files, and with empty folders as mount points.
fn file_system(files: &[(&str, &str)]) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(vec![]);
    for folder in ["proc", "sys", "dev", "etc", "run", "tmp", "data"] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        tar.append_data(&mut header, folder, &[][..])?;
    }
    for (path, source) in files {
        let path = path.trim_start_matches('/');
        if fs::symlink_metadata(source).is_ok_and(|file| file.is_symlink()) {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_mode(0o777);
            header.set_size(0);
            tar.append_link(&mut header, path, fs::read_link(source)?)?;
        } else {
            append(&mut tar, path, &read(source)?)?;
        }
    }
    Ok(tar.into_inner()?)
}

fn append(tar: &mut tar::Builder<impl std::io::Write>, path: &str, bytes: &[u8]) -> Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, path, bytes)?;
    Ok(())
}

fn described(media: &str, bytes: &[u8], more: &str) -> String {
    format!(
        r#"{{"mediaType":"{media}","digest":"{}","size":{}{more}}}"#,
        digest(bytes),
        bytes.len()
    )
}

fn digest(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The OCI name of this machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
