//! Requests of a guest to other servers: `outgoing-request` and `request-options`.

use super::bodies::{Sent, link_body};
use super::fields::{Fields, Headers, Message, content_length, link_headers};
use super::names::{MethodName, SchemeName, TYPES};
use crate::limits::{AUTHORITY_BYTES_MAX, METHOD_BYTES_MAX};
use crate::message::{ErrorCode, OutgoingBody, RequestTimeouts};
use crate::methods::{itself, methods, resource};
use crate::table::resource_type;
use crate::wasi::View;
use http::uri::{Authority, InvalidUri, PathAndQuery, Scheme};
use http::{Method, Request, Uri};
use pirn_component::{AbiError, HeldBytes, LinkError, Linker, Own};
use std::sync::Arc;
use std::time::Duration;

/// The resource `outgoing-request`.
pub(super) struct OutgoingRequest {
    method: Method,
    path_with_query: Option<PathAndQuery>,
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    headers: Arc<Headers>,
    /// The body, if the guest has asked for it.
    body: Option<OutgoingBody>,
    /// Counts the memory for method, path and authority.
    held: HeldBytes,
}

resource_type!(OutgoingRequest, TYPES, "outgoing-request", ready);

impl Message for OutgoingRequest {
    fn headers(&self) -> &Arc<Headers> {
        &self.headers
    }
}

impl Sent for OutgoingRequest {
    const IS_REQUEST: bool = true;

    fn body(&mut self) -> &mut Option<OutgoingBody> {
        &mut self.body
    }
}

impl OutgoingRequest {
    /// Counts the memory for the method, path and authority that the guest has set.
    fn count(&mut self) -> Result<(), AbiError> {
        let path = self.path_with_query.as_ref();
        let authority = self.authority.as_ref();
        let bytes = self.method.as_str().len()
            + path.map_or(0, |path| path.as_str().len())
            + authority.map_or(0, |authority| authority.as_str().len());
        self.held.set(bytes)
    }

    /// The request for the client, with the count of the memory of its head.
    pub(super) fn request(
        mut self,
    ) -> Result<Result<(Request<OutgoingBody>, HeldBytes), ErrorCode>, AbiError> {
        let uri = match self.uri() {
            Ok(uri) => uri,
            Err(error) => return Ok(Err(error)),
        };
        let (headers, mut held) = Headers::into_map(self.headers)?;
        let target = self.held.bytes();
        self.held.set(0)?;
        held.set(held.bytes() + target)?;
        let body = self.body.unwrap_or_else(OutgoingBody::empty);
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(Ok((request, held)))
    }

    /// The target of a request whose `Content-Length` is well-formed.
    fn uri(&mut self) -> Result<Uri, ErrorCode> {
        content_length(&self.headers).map_err(|()| ErrorCode::HttpProtocolError)?;
        let authority = self.authority.take();
        let authority = authority.ok_or(ErrorCode::HttpRequestUriInvalid)?;
        let path = self.path_with_query.take();
        let uri = Uri::builder()
            .scheme(self.scheme.take().unwrap_or(Scheme::HTTPS))
            .authority(authority)
            .path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
            .build();
        uri.map_err(|_| ErrorCode::HttpRequestUriInvalid)
    }
}

/// The resource `request-options`.
#[derive(Default)]
pub(super) struct RequestOptions(pub(super) RequestTimeouts);

resource_type!(RequestOptions, TYPES, "request-options", ready);

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    link_request(linker)?;
    link_target(linker)?;
    link_options(linker)
}

fn link_request<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, OutgoingRequest>(linker)?;
    let name = "[constructor]outgoing-request";
    linker.func(TYPES, name, |state, (fields,): (Own<Fields>,)| {
        let wasi = state.data_mut().wasi();
        let headers = wasi.table.take::<Fields>(fields.rep())?.headers;
        let held = wasi.host_bytes.hold(0)?;
        wasi.table.own(OutgoingRequest {
            method: Method::GET,
            path_with_query: None,
            scheme: None,
            authority: None,
            headers,
            body: None,
            held,
        })
    })?;
    link_headers::<T, OutgoingRequest>(linker)?;
    link_body::<T, OutgoingRequest>(linker)?;
    methods! { linker, OutgoingRequest, itself;
        "method"() => |request| Ok(MethodName::from(&request.method));
        "set-method"(method: MethodName) => |request| {
            let method = method.method();
            let method = method.filter(|method| method.as_str().len() <= METHOD_BYTES_MAX);
            let set = method.map(|method| request.method = method).ok_or(());
            request.count()?;
            Ok(set)
        };
    }
    Ok(())
}

/// The path and query in a text, without the fragment: a target has no fragment (RFC 9110, section
/// 4.2.5). `PathAndQuery` also cuts the fragment off, but keeps its bytes in memory.
fn path_of(mut text: String) -> Result<PathAndQuery, InvalidUri> {
    if let Some(at) = text.find('#') {
        text.truncate(at);
        text.shrink_to_fit();
    }
    PathAndQuery::try_from(text)
}

/// Links the getters and setters of a request's target: path, scheme and authority.
fn link_target<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    methods! { linker, OutgoingRequest, itself;
        "path-with-query"() => |request| {
            Ok(request.path_with_query.as_ref().map(ToString::to_string))
        };
        "set-path-with-query"(path: Option<String>) => |request| {
            let path = path.map(path_of).transpose();
            let set = path.map(|path| request.path_with_query = path);
            request.count()?;
            Ok(set.map_err(drop))
        };
        "scheme"() => |request| Ok(request.scheme.as_ref().map(SchemeName::from));
        "set-scheme"(scheme: Option<SchemeName>) => |request| {
            let scheme = scheme.map(|scheme| scheme.scheme().ok_or(())).transpose();
            Ok(scheme.map(|scheme| request.scheme = scheme))
        };
        "authority"() => |request| Ok(request.authority.as_ref().map(ToString::to_string));
        "set-authority"(authority: Option<String>) => |request| {
            let too_long = |text: &String| text.len() > AUTHORITY_BYTES_MAX;
            if authority.as_ref().is_some_and(too_long) {
                return Ok(Err(()));
            }
            let authority = authority.map(Authority::try_from).transpose();
            let set = authority.map(|authority| request.authority = authority);
            request.count()?;
            Ok(set.map_err(drop))
        };
    }
    Ok(())
}

fn link_options<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, RequestOptions>(linker)?;
    linker.func(TYPES, "[constructor]request-options", |state, ()| {
        state.data_mut().wasi().table.own(RequestOptions::default())
    })?;
    link_timeout(linker, "connect-timeout", |times| &mut times.connect)?;
    link_timeout(linker, "first-byte-timeout", |times| &mut times.first_byte)?;
    link_timeout(linker, "between-bytes-timeout", |times| {
        &mut times.between_bytes
    })
}

/// Links the getter and the setter of a timeout, in nanoseconds.
fn link_timeout<T: View>(
    linker: &mut Linker<T>,
    name: &str,
    of: fn(&mut RequestTimeouts) -> &mut Option<Duration>,
) -> Result<(), LinkError> {
    let set = format!("set-{name}");
    methods! { linker, RequestOptions, itself;
        name() => |options| {
            let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            Ok(of(&mut options.0).map(ns))
        };
        set(ns: Option<u64>) => |options| {
            *of(&mut options.0) = ns.map(Duration::from_nanos);
            Ok(Ok::<(), ()>(()))
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pirn_testing::allocator::live_bytes;

    #[test]
    fn no_bytes_of_a_fragment_are_kept() {
        for (text, expected) in [("/", "/"), ("/a?b", "/a?b"), ("*", "*")] {
            let fragment = "f".repeat(60_000);
            let before = live_bytes();
            let path = path_of(format!("{text}#{fragment}")).expect("a path");
            let kept = live_bytes() - before;
            assert_eq!(path.as_str(), expected);
            assert!(kept < 200, "{kept} bytes for {text}");
        }
        assert!(path_of("#a".to_owned()).is_err());
    }
}
