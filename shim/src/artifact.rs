//! [`layer`]: the program of an OCI artifact, whose single layer is a WebAssembly file instead of a
//! file system.
//!
//! containerd does not unpack such a layer, so the shim reads it from containerd's content store.

use crate::entry::Signable;
use anyhow::{Context as _, Result, bail, ensure};
use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::content_client::ContentClient;
use containerd_client::services::v1::images_client::ImagesClient;
use containerd_client::services::v1::{GetContainerRequest, GetImageRequest, ReadContentRequest};
use containerd_client::tonic::transport::Channel;
use containerd_client::tonic::{Code, Request, Status};
use containerd_client::with_namespace;
use containerd_shimkit::sandbox::InstanceConfig;
use oci_spec::image::{Arch, Descriptor, ImageIndex, ImageManifest, Os};

/// Media types of layers that are WebAssembly files.
const WASM: [&str; 3] = [
    "application/wasm",
    "application/vnd.bytecodealliance.wasm.component.layer.v0+wasm",
    "application/vnd.wasm.content.layer.v1+wasm",
];

/// The annotation of a layer that contains the text of the layer's signature.
const SIGNATURE: &str = "io.pirn.signature";

/// Maximum size of a manifest or an index.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;

/// The program of a container whose image is an OCI artifact. `None` if the image is not an
/// artifact.
pub(crate) async fn layer(
    id: &str,
    config: &InstanceConfig,
    bytes_max: u64,
) -> Result<Option<Signable>> {
    let channel = containerd_client::connect(&config.containerd_address).await;
    let address = &config.containerd_address;
    let channel = channel.with_context(|| format!("cannot connect to containerd at {address}"))?;
    let store = Store {
        channel,
        namespace: config.namespace.clone(),
    };
    let Some(manifest) = store.manifest(id).await? else {
        return Ok(None);
    };
    let all = manifest.layers().iter();
    let of_wasm: Vec<_> = all
        .filter(|layer| WASM.contains(&layer.media_type().as_ref()))
        .collect();
    let layer = match of_wasm.as_slice() {
        [] => return Ok(None),
        [layer] => *layer,
        all => bail!(
            "the artifact has {} layers of WebAssembly, and one is run; compose them to one",
            all.len()
        ),
    };
    let annotations = layer.annotations().as_ref();
    Ok(Some(Signable {
        bytes: store
            .read(layer, bytes_max)
            .await
            .context("the layer of the artifact")?,
        signature: annotations.and_then(|all| all.get(SIGNATURE)).cloned(),
    }))
}

/// A client of containerd's stores, for one containerd namespace.
struct Store {
    channel: Channel,
    namespace: String,
}

impl Store {
    /// The manifest of a container's image. `None` if containerd knows no image of the container.
    async fn manifest(&self, id: &str) -> Result<Option<ImageManifest>> {
        let request = GetContainerRequest { id: id.to_owned() };
        let request = with_namespace!(request, self.namespace);
        let found = ContainersClient::new(self.channel.clone())
            .get(request)
            .await;
        let Some(found) = present(found).context("the container")? else {
            return Ok(None);
        };
        let name = found.into_inner().container.unwrap_or_default().image;
        if name.is_empty() {
            return Ok(None);
        }
        let request = with_namespace!(GetImageRequest { name }, self.namespace);
        let found = ImagesClient::new(self.channel.clone()).get(request).await;
        let Some(found) = present(found).context("the image")? else {
            return Ok(None);
        };
        let target = found.into_inner().image.and_then(|image| image.target);
        let Some(target) = target else {
            return Ok(None);
        };
        let mut bytes = self.content(&target.digest, MANIFEST_BYTES_MAX).await?;
        if target.media_type.contains("index") || target.media_type.contains("manifest.list") {
            let index = ImageIndex::from_reader(bytes.as_slice());
            let index = index.context("the index of the image")?;
            let Some(manifest) = index.manifests().iter().find(|found| is_ours(found)) else {
                return Ok(None);
            };
            bytes = self.read(manifest, MANIFEST_BYTES_MAX).await?;
        }
        let manifest = ImageManifest::from_reader(bytes.as_slice());
        Ok(Some(manifest.context("the manifest of the image")?))
    }

    async fn read(&self, what: &Descriptor, bytes_max: u64) -> Result<Vec<u8>> {
        let found = what.size();
        ensure!(
            found <= bytes_max,
            "it has {found} bytes, the policy of the node allows {bytes_max}; raise module_max"
        );
        self.content(what.digest().as_ref(), bytes_max).await
    }

    /// Reads a blob from the content store. containerd has checked the blob's digest before it
    /// stored the blob.
    async fn content(&self, digest: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let request = ReadContentRequest {
            digest: digest.to_owned(),
            ..ReadContentRequest::default()
        };
        let request = with_namespace!(request, self.namespace);
        let named = || format!("cannot read {digest} from containerd's content store");
        let answer = ContentClient::new(self.channel.clone()).read(request).await;
        let mut pieces = answer.with_context(named)?.into_inner();
        let mut bytes = vec![];
        while let Some(piece) = pieces.message().await.with_context(named)? {
            bytes.extend_from_slice(&piece.data);
            ensure!(
                bytes.len() as u64 <= bytes_max,
                "{digest} has more than {bytes_max} bytes; raise module_max"
            );
        }
        Ok(bytes)
    }
}

/// Whether a manifest of an image index is for this machine or for WebAssembly.
fn is_ours(found: &Descriptor) -> bool {
    found.platform().as_ref().is_none_or(|platform| {
        let is_machine = *platform.architecture() == Arch::default();
        let is_wasm = *platform.architecture() == Arch::Wasm;
        is_wasm || is_machine && *platform.os() == Os::Linux
    })
}

/// Converts a `NotFound` error from containerd to `None`.
fn present<T>(answer: std::result::Result<T, Status>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => bail!("containerd does not answer: {}", status.message()),
    }
}
