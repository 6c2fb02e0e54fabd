//! `fields`: header fields and trailers.

use super::names::TYPES;
use crate::limits::FIELDS_BYTES_MAX;
use crate::methods::{itself, methods, resource, with_wasi};
use crate::table::{Resource, resource_type};
use crate::wasi::View;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use pirn_component::{AbiError, HeldBytes, HostBytes, LinkError, Linker, ResourceType, Typed};
use pirn_runtime::HostError;
use std::ops::Deref;
use std::sync::Arc;

/// Fields of the connection, which a guest can neither set nor see.
const FORBIDDEN: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HOST,
    HeaderName::from_static("http2-settings"),
];

/// `header-error`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Typed)]
pub(super) enum HeaderError {
    InvalidSyntax,
    Forbidden,
    Immutable,
}

/// The fields of a message. Their memory counts against the guest's limit.
pub(super) struct Headers {
    map: HeaderMap,
    held: HeldBytes,
}

impl Headers {
    pub(super) fn new(map: HeaderMap, host_bytes: &HostBytes) -> Result<Arc<Self>, AbiError> {
        let held = host_bytes.hold(host_size(&map))?;
        Ok(Arc::new(Self { map, held }))
    }

    /// Makes the headers from the fields of a received message. Each value is a part of the
    /// connection's read buffer and would keep the whole buffer alive. So this function copies the
    /// values.
    pub(super) fn received(
        mut map: HeaderMap,
        host_bytes: &HostBytes,
    ) -> Result<Arc<Self>, AbiError> {
        remove_forbidden(&mut map);
        let held = host_bytes.hold(host_size(&map))?;
        for value in map.values_mut() {
            let is_sensitive = value.is_sensitive();
            // Always succeeds: the bytes come from a valid value.
            if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
                *value = copy;
                value.set_sensitive(is_sensitive);
            }
        }
        Ok(Arc::new(Self { map, held }))
    }

    /// Returns the fields for the connection, and the count of their memory.
    pub(super) fn into_map(this: Arc<Self>) -> Result<(HeaderMap, HeldBytes), AbiError> {
        match Arc::try_unwrap(this) {
            Ok(headers) => Ok((headers.map, headers.held)),
            Err(shared) => {
                let held = shared.held.account().hold(shared.held.bytes())?;
                Ok((shared.map.clone(), held))
            }
        }
    }
}

impl Deref for Headers {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        &self.map
    }
}

/// The resource `fields`.
pub(super) struct Fields {
    pub(super) headers: Arc<Headers>,
    is_immutable: bool,
}

resource_type!(Fields, TYPES, "fields", ready);

impl Fields {
    /// Fields that the guest cannot change.
    pub(super) fn immutable(headers: &Arc<Headers>) -> Self {
        Self {
            headers: Arc::clone(headers),
            is_immutable: true,
        }
    }

    /// Fields that the guest can change.
    fn mutable(map: HeaderMap, host_bytes: &HostBytes) -> Result<Self, AbiError> {
        Ok(Self {
            headers: Headers::new(map, host_bytes)?,
            is_immutable: false,
        })
    }

    /// Fails if the host may not keep a copy of the fields.
    fn check_copy(&self) -> Result<(), AbiError> {
        let held = &self.headers.held;
        held.account().check(held.bytes())
    }

    /// Returns the fields for a change. Mutable fields are never shared.
    fn headers_mut(&mut self) -> Result<&mut Headers, HeaderError> {
        match self.is_immutable {
            true => Err(HeaderError::Immutable),
            false => Arc::get_mut(&mut self.headers).ok_or(HeaderError::Immutable),
        }
    }
}

/// Removes the fields that a guest must not see.
fn remove_forbidden(map: &mut HeaderMap) {
    for name in &FORBIDDEN {
        map.remove(name);
    }
}

/// The value of `Content-Length`; an error if the value is no number, or if there are several
/// values.
pub(super) fn content_length(map: &HeaderMap) -> Result<Option<u64>, ()> {
    let mut values = map.get_all(CONTENT_LENGTH).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().map_err(drop)?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match (is_number, values.next()) {
        (true, None) => text.parse().map(Some).map_err(drop),
        _ => Err(()),
    }
}

fn name(text: &str) -> Result<HeaderName, HeaderError> {
    let name = HeaderName::from_bytes(text.as_bytes());
    let name = name.map_err(|_| HeaderError::InvalidSyntax)?;
    match FORBIDDEN.contains(&name) {
        true => Err(HeaderError::Forbidden),
        false => Ok(name),
    }
}

fn value(bytes: Bytes) -> Result<HeaderValue, HeaderError> {
    HeaderValue::from_maybe_shared(bytes).map_err(|_| HeaderError::InvalidSyntax)
}

/// The count, in bytes, of an entry of a map, or of a further value of a name.
const ENTRY_BYTES: usize = 128;

/// The count of a field in bytes: name, value, and entry in the map.
fn entry_size(name: &str, value: &[u8]) -> usize {
    name.len() + value.len() + ENTRY_BYTES
}

/// Bytes of the host that a map takes. An entry of the map, or a further value of a name, has less
/// than 128 bytes. Half of the entries may be free.
fn host_size(map: &HeaderMap) -> usize {
    let texts = map.iter();
    let texts = texts.map(|(name, value)| name.as_str().len() + value.len());
    texts.sum::<usize>() + (map.capacity() + 2 * further(map)) * ENTRY_BYTES
}

/// Number of further values: values after the first value of their name.
fn further(map: &HeaderMap) -> usize {
    map.len() - map.keys_len()
}

/// The count of all fields of a map in bytes.
fn size(map: &HeaderMap) -> usize {
    let all = map.iter();
    all.map(|(name, value)| entry_size(name.as_str(), value.as_bytes()))
        .sum()
}

/// Ends the guest if fields are larger than allowed.
fn check_size(bytes: usize) -> Result<(), HostError> {
    match bytes <= FIELDS_BYTES_MAX {
        true => Ok(()),
        false => Err(HostError::message(format!(
            "header fields of {bytes} bytes, at most {FIELDS_BYTES_MAX} are allowed"
        ))),
    }
}

type Entry = (String, Bytes);

fn from_list(entries: Vec<Entry>) -> Result<HeaderMap, HeaderError> {
    let mut map = HeaderMap::new();
    for (text, bytes) in entries {
        let appended = map.try_append(name(&text)?, value(bytes)?);
        appended.map_err(|_| HeaderError::InvalidSyntax)?;
    }
    Ok(map)
}

fn entries(map: &HeaderMap) -> Vec<Entry> {
    let entries = map.iter();
    entries
        .map(|(name, value)| (name.as_str().to_owned(), bytes(value)))
        .collect()
}

fn bytes(value: &HeaderValue) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

/// Changes fields. Ends the guest if the fields become too large.
fn change(
    fields: &mut Fields,
    change: impl FnOnce(&mut HeaderMap) -> Result<(), HeaderError>,
) -> Result<Result<(), HeaderError>, HostError> {
    let headers = match fields.headers_mut() {
        Ok(headers) => headers,
        Err(error) => return Ok(Err(error)),
    };
    let before = further(&headers.map);
    let changed = change(&mut headers.map);
    if further(&headers.map) < before {
        // The map keeps room for all further values that it ever had, and does not report the size
        // of this room. A clone drops the room.
        headers.map = headers.map.clone();
    }
    let bytes = size(&headers.map);
    check_size(bytes)?;
    headers.held.set(host_size(&headers.map))?;
    Ok(changed)
}

/// A message that has fields.
pub(super) trait Message: Resource + ResourceType {
    fn headers(&self) -> &Arc<Headers>;
}

/// Adds the method `headers` of a message. The result is a child of the message, and the guest
/// cannot change it.
pub(super) fn link_headers<T: View, M: Message>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    methods! { linker, M, with_wasi;
        "headers"() => |wasi, this| {
            let fields = Fields::immutable(wasi.table.get::<M>(this)?.headers());
            wasi.table.own_child(this, fields)
        };
    }
    Ok(())
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, Fields>(linker)?;
    linker.func(TYPES, "[constructor]fields", |state, ()| {
        let wasi = state.data_mut().wasi();
        let fields = Fields::mutable(HeaderMap::new(), &wasi.host_bytes)?;
        wasi.table.own(fields)
    })?;
    let of_list = "[static]fields.from-list";
    linker.func(TYPES, of_list, |state, (list,): (Vec<Entry>,)| {
        // Check the size before the host makes the map.
        let sizes = list.iter().map(|(name, value)| entry_size(name, value));
        check_size(sizes.sum())?;
        Ok(match from_list(list) {
            Err(error) => Err(error),
            Ok(map) => {
                let wasi = state.data_mut().wasi();
                let fields = Fields::mutable(map, &wasi.host_bytes)?;
                Ok(wasi.table.own(fields)?)
            }
        })
    })?;
    methods! { linker, Fields, itself;
        "get"(name: String) => |fields| {
            fields.check_copy()?;
            let values = fields.headers.get_all(&*name).iter().map(bytes);
            Ok(values.collect::<Vec<_>>())
        };
        "has"(name: String) => |fields| Ok(fields.headers.contains_key(&*name));
        "entries"() => |fields| {
            fields.check_copy()?;
            Ok(entries(&fields.headers))
        };
        "set"(text: String, values: Vec<Bytes>) => |fields| {
            check_size(values.iter().map(|value| entry_size(&text, value)).sum())?;
            change(fields, |map| {
                let name = name(&text)?;
                let values: Vec<_> = values.into_iter().map(value).collect::<Result<_, _>>()?;
                map.remove(&name);
                for value in values {
                    let appended = map.try_append(&name, value);
                    appended.map_err(|_| HeaderError::InvalidSyntax)?;
                }
                Ok(())
            })
        };
        "delete"(text: String) => |fields| change(fields, |map| {
            map.remove(name(&text)?);
            Ok(())
        });
        "append"(text: String, bytes: Bytes) => |fields| change(fields, |map| {
            let appended = map.try_append(name(&text)?, value(bytes)?);
            appended.map(drop).map_err(|_| HeaderError::InvalidSyntax)
        });
    }
    methods! { linker, Fields, with_wasi;
        "clone"() => |wasi, this| {
            let fields = wasi.table.get::<Fields>(this)?;
            fields.check_copy()?;
            let map = HeaderMap::clone(&fields.headers);
            let fields = Fields::mutable(map, &wasi.host_bytes)?;
            wasi.table.own(fields)
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pirn_testing::allocator::{Counting, live_bytes};

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    fn append(fields: &mut Fields, text: &str, count: usize) {
        let appended = change(fields, |map| {
            for _ in 0..count {
                let appended = map.try_append(name(text)?, HeaderValue::from_static(""));
                appended.map_err(|_| HeaderError::InvalidSyntax)?;
            }
            Ok(())
        });
        assert!(matches!(appended, Ok(Ok(()))));
    }

    fn remove(fields: &mut Fields, text: &str) {
        let removed = change(fields, |map| {
            map.remove(name(text)?);
            Ok(())
        });
        assert!(matches!(removed, Ok(Ok(()))));
    }

    #[test]
    fn fields_never_take_more_memory_than_is_counted() {
        let account = HostBytes::new(usize::MAX);
        let fields = || Fields::mutable(HeaderMap::new(), &account).expect("there is room");
        // The fields themselves are counted with their resource.
        let before = live_bytes();
        let empty = fields();
        let own = live_bytes() - before;
        drop(empty);
        let check = |when: &str| {
            let taken = live_bytes() - before - own;
            let counted = account.held().cast_signed();
            assert!(taken <= counted, "{taken} of {counted} bytes {when}");
        };
        let mut fields = fields();
        append(&mut fields, "a", 1000);
        check("after 1000 values");
        remove(&mut fields, "a");
        check("without these values");
        for number in 0..400 {
            append(&mut fields, &format!("name-{number}"), 2);
            check("with more names");
        }
        for number in 0..400 {
            remove(&mut fields, &format!("name-{number}"));
            check("with fewer names");
        }
    }
}
