//! Requests of a guest to other servers: `outgoing-request` and `request-options`.

use super::bodies::Outgoing;
use super::fields::{Fields, Headers, content_length};
use super::names::{
    FieldsType, MethodName, OutgoingBodyType, OutgoingRequestType, RequestOptionsType, SchemeName,
    TYPES, resource,
};
use crate::limits::{AUTHORITY_BYTES_MAX, METHOD_BYTES_MAX};
use crate::message::{ErrorCode, OutgoingBody, RequestTimeouts, channel};
use crate::quota::Kept;
use crate::table::Resource;
use crate::wasi::{View, Wasi};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Uri};
use pirn_component::{Borrow, LinkError, Linker, Own};
use pirn_runtime::HostError;
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
    kept: Kept,
}

impl Resource for OutgoingRequest {}

impl OutgoingRequest {
    /// Counts the memory for the method, path and authority that the guest has set.
    fn count(&mut self) -> Result<(), HostError> {
        let path = self.path_with_query.as_ref();
        let authority = self.authority.as_ref();
        let bytes = self.method.as_str().len()
            + path.map_or(0, |path| path.as_str().len())
            + authority.map_or(0, |authority| authority.as_str().len());
        self.kept.set(bytes)
    }

    /// The request as it is sent.
    pub(super) fn request(self) -> Result<Request<OutgoingBody>, ErrorCode> {
        content_length(&self.headers).map_err(|()| ErrorCode::HttpProtocolError)?;
        let authority = self.authority.ok_or(ErrorCode::HttpRequestUriInvalid)?;
        let path = self.path_with_query;
        let uri = Uri::builder()
            .scheme(self.scheme.unwrap_or(Scheme::HTTPS))
            .authority(authority)
            .path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
            .build();
        let body = self.body.unwrap_or_else(OutgoingBody::empty);
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = uri.map_err(|_| ErrorCode::HttpRequestUriInvalid)?;
        *request.headers_mut() = Headers::into_map(self.headers);
        Ok(request)
    }
}

/// The resource `request-options`.
#[derive(Default)]
pub(super) struct RequestOptions(pub(super) RequestTimeouts);

impl Resource for RequestOptions {}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    link_request(linker)?;
    link_target(linker)?;
    link_options(linker)
}

fn link_request<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type This = Borrow<OutgoingRequestType>;
    resource::<T, OutgoingRequestType>(linker)?;
    let name = "[constructor]outgoing-request";
    linker.func(TYPES, name, |state, (fields,): (Own<FieldsType>,)| {
        let Wasi { table, kept, .. } = state.data_mut().wasi();
        let request = OutgoingRequest {
            method: Method::GET,
            path_with_query: None,
            scheme: None,
            authority: None,
            headers: table.take::<Fields>(fields.rep())?.headers,
            body: None,
            kept: kept.keep(0)?,
        };
        table.add(request).map(Own::<OutgoingRequestType>::host)
    })?;
    linker.func(
        TYPES,
        "[method]outgoing-request.body",
        |state, (this,): (This,)| {
            let Wasi { table, kept, .. } = state.data_mut().wasi();
            let request = table.get::<OutgoingRequest>(this.rep())?;
            if request.body.is_some() {
                return Ok(Err(()));
            }
            let Ok(announced) = content_length(&request.headers) else {
                return Ok(Err(()));
            };
            let (writer, body) = channel(announced, true, kept)?;
            request.body = Some(body);
            let body = table.add(Outgoing::new(writer))?;
            Ok(Ok(Own::<OutgoingBodyType>::host(body)))
        },
    )?;
    linker.func(
        TYPES,
        "[method]outgoing-request.headers",
        |state, (this,): (This,)| {
            let table = &mut state.data_mut().wasi().table;
            let fields = Fields::immutable(&table.get::<OutgoingRequest>(this.rep())?.headers);
            table
                .add_child(this.rep(), fields)
                .map(Own::<FieldsType>::host)
        },
    )?;
    linker.func(
        TYPES,
        "[method]outgoing-request.method",
        |state, (this,): (This,)| {
            let request = state
                .data_mut()
                .wasi()
                .table
                .get::<OutgoingRequest>(this.rep())?;
            Ok(MethodName::from(&request.method))
        },
    )?;
    let name = "[method]outgoing-request.set-method";
    linker.func(TYPES, name, |state, (this, method): (This, MethodName)| {
        let request = state
            .data_mut()
            .wasi()
            .table
            .get::<OutgoingRequest>(this.rep())?;
        let method = method
            .method()
            .filter(|method| method.as_str().len() <= METHOD_BYTES_MAX);
        let set = method.map(|method| request.method = method).ok_or(());
        request.count()?;
        Ok(set)
    })?;
    Ok(())
}

/// Where a request goes.
fn link_target<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type This = Borrow<OutgoingRequestType>;
    let name = "[method]outgoing-request.path-with-query";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        let request = state
            .data_mut()
            .wasi()
            .table
            .get::<OutgoingRequest>(this.rep())?;
        Ok(request.path_with_query.as_ref().map(ToString::to_string))
    })?;
    type SetText = (Borrow<OutgoingRequestType>, Option<String>);
    let name = "[method]outgoing-request.set-path-with-query";
    linker.func(TYPES, name, |state, (this, path): SetText| {
        let request = state
            .data_mut()
            .wasi()
            .table
            .get::<OutgoingRequest>(this.rep())?;
        let path = path.map(PathAndQuery::try_from).transpose();
        let set = path.map(|path| request.path_with_query = path);
        request.count()?;
        Ok(set.map_err(drop))
    })?;
    linker.func(
        TYPES,
        "[method]outgoing-request.scheme",
        |state, (this,): (This,)| {
            let request = state
                .data_mut()
                .wasi()
                .table
                .get::<OutgoingRequest>(this.rep())?;
            Ok(request.scheme.as_ref().map(SchemeName::from))
        },
    )?;
    type SetScheme = (Borrow<OutgoingRequestType>, Option<SchemeName>);
    let name = "[method]outgoing-request.set-scheme";
    linker.func(TYPES, name, |state, (this, scheme): SetScheme| {
        let request = state
            .data_mut()
            .wasi()
            .table
            .get::<OutgoingRequest>(this.rep())?;
        let scheme = scheme.map(|scheme| scheme.scheme().ok_or(())).transpose();
        Ok(scheme.map(|scheme| request.scheme = scheme))
    })?;
    let name = "[method]outgoing-request.authority";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        let request = state
            .data_mut()
            .wasi()
            .table
            .get::<OutgoingRequest>(this.rep())?;
        Ok(request.authority.as_ref().map(ToString::to_string))
    })?;
    let name = "[method]outgoing-request.set-authority";
    linker.func(TYPES, name, |state, (this, authority): SetText| {
        let request = state
            .data_mut()
            .wasi()
            .table
            .get::<OutgoingRequest>(this.rep())?;
        if authority
            .as_ref()
            .is_some_and(|text| text.len() > AUTHORITY_BYTES_MAX)
        {
            return Ok(Err(()));
        }
        let authority = authority.map(Authority::try_from).transpose();
        let set = authority.map(|authority| request.authority = authority);
        request.count()?;
        Ok(set.map_err(drop))
    })?;
    Ok(())
}

fn link_options<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, RequestOptionsType>(linker)?;
    linker.func(TYPES, "[constructor]request-options", |state, ()| {
        let table = &mut state.data_mut().wasi().table;
        table
            .add(RequestOptions::default())
            .map(Own::<RequestOptionsType>::host)
    })?;
    link_timeout(linker, "connect-timeout", |options| &mut options.0.connect)?;
    link_timeout(linker, "first-byte-timeout", |options| {
        &mut options.0.first_byte
    })?;
    link_timeout(linker, "between-bytes-timeout", |options| {
        &mut options.0.between_bytes
    })
}

/// The two functions of one timeout, in nanoseconds.
fn link_timeout<T: View>(
    linker: &mut Linker<T>,
    name: &str,
    of: fn(&mut RequestOptions) -> &mut Option<Duration>,
) -> Result<(), LinkError> {
    type This = Borrow<RequestOptionsType>;
    let get = format!("[method]request-options.{name}");
    linker.func(TYPES, &get, move |state, (this,): (This,)| {
        let options = state
            .data_mut()
            .wasi()
            .table
            .get::<RequestOptions>(this.rep())?;
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(of(options).map(ns))
    })?;
    let set = format!("[method]request-options.set-{name}");
    linker.func(
        TYPES,
        &set,
        move |state, (this, ns): (This, Option<u64>)| {
            let options = state
                .data_mut()
                .wasi()
                .table
                .get::<RequestOptions>(this.rep())?;
            *of(options) = ns.map(Duration::from_nanos);
            Ok(Ok::<(), ()>(()))
        },
    )?;
    Ok(())
}
