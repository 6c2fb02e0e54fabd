//! `outgoing-response` and `incoming-response`.

use super::bodies::{Incoming, Outgoing};
use super::fields::{Fields, Headers, content_length};
use super::names::{
    FieldsType, IncomingBodyType, IncomingResponseType, OutgoingBodyType, OutgoingResponseType,
    TYPES, resource,
};
use crate::message::{ErrorCode, IncomingBody, OutgoingBody, channel};
use crate::table::Resource;
use crate::wasi::{View, Wasi};
use http::header::CONTENT_LENGTH;
use http::{Response, StatusCode};
use pirn_component::{Borrow, LinkError, Linker, Own};
use std::sync::Arc;

/// The resource `outgoing-response`.
pub(super) struct OutgoingResponse {
    status: StatusCode,
    headers: Arc<Headers>,
    /// The body, if the guest has asked for it.
    body: Option<OutgoingBody>,
}

impl Resource for OutgoingResponse {}

impl OutgoingResponse {
    /// The response as it goes to the client.
    pub(super) fn answer(self) -> Result<Response<OutgoingBody>, ErrorCode> {
        // With two lengths, a client and a proxy could read different responses (smuggling).
        content_length(&self.headers).map_err(|()| ErrorCode::HttpProtocolError)?;
        let body = self.body.unwrap_or_else(OutgoingBody::empty);
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = Headers::into_map(self.headers);
        if self.status == StatusCode::NO_CONTENT {
            // A client that trusts `Content-Length` would wait for a body (RFC 9110, section 8.6).
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        Ok(response)
    }
}

/// The resource `incoming-response`.
pub(super) struct IncomingResponse {
    pub(super) status: StatusCode,
    pub(super) headers: Arc<Headers>,
    pub(super) body: Option<IncomingBody>,
}

impl Resource for IncomingResponse {}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    link_outgoing(linker)?;
    link_incoming(linker)
}

fn link_outgoing<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type This = Borrow<OutgoingResponseType>;
    resource::<T, OutgoingResponseType>(linker)?;
    let name = "[constructor]outgoing-response";
    linker.func(TYPES, name, |state, (fields,): (Own<FieldsType>,)| {
        let table = &mut state.data_mut().wasi().table;
        let response = OutgoingResponse {
            status: StatusCode::OK,
            headers: table.take::<Fields>(fields.rep())?.headers,
            body: None,
        };
        table.add(response).map(Own::<OutgoingResponseType>::host)
    })?;
    let name = "[method]outgoing-response.status-code";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        let response = state
            .data_mut()
            .wasi()
            .table
            .get::<OutgoingResponse>(this.rep())?;
        Ok(response.status.as_u16())
    })?;
    let name = "[method]outgoing-response.set-status-code";
    linker.func(TYPES, name, |state, (this, code): (This, u16)| {
        let response = state
            .data_mut()
            .wasi()
            .table
            .get::<OutgoingResponse>(this.rep())?;
        Ok(match StatusCode::from_u16(code) {
            // An informational status (1xx) cannot be the final response.
            Ok(status) if !status.is_informational() => {
                response.status = status;
                Ok(())
            }
            _ => Err(()),
        })
    })?;
    let name = "[method]outgoing-response.headers";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        let table = &mut state.data_mut().wasi().table;
        let fields = Fields::immutable(&table.get::<OutgoingResponse>(this.rep())?.headers);
        table
            .add_child(this.rep(), fields)
            .map(Own::<FieldsType>::host)
    })?;
    let name = "[method]outgoing-response.body";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        let Wasi { table, kept, .. } = state.data_mut().wasi();
        let response = table.get::<OutgoingResponse>(this.rep())?;
        if response.body.is_some() {
            return Ok(Err(()));
        }
        let Ok(announced) = content_length(&response.headers) else {
            return Ok(Err(()));
        };
        let (writer, body) = channel(announced, false, kept)?;
        response.body = Some(body);
        let body = table.add(Outgoing::new(writer))?;
        Ok(Ok(Own::<OutgoingBodyType>::host(body)))
    })?;
    Ok(())
}

fn link_incoming<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type This = Borrow<IncomingResponseType>;
    resource::<T, IncomingResponseType>(linker)?;
    linker.func(
        TYPES,
        "[method]incoming-response.status",
        |state, (this,): (This,)| {
            let response = state
                .data_mut()
                .wasi()
                .table
                .get::<IncomingResponse>(this.rep())?;
            Ok(response.status.as_u16())
        },
    )?;
    linker.func(
        TYPES,
        "[method]incoming-response.headers",
        |state, (this,): (This,)| {
            let table = &mut state.data_mut().wasi().table;
            let fields = Fields::immutable(&table.get::<IncomingResponse>(this.rep())?.headers);
            table
                .add_child(this.rep(), fields)
                .map(Own::<FieldsType>::host)
        },
    )?;
    linker.func(
        TYPES,
        "[method]incoming-response.consume",
        |state, (this,): (This,)| {
            let table = &mut state.data_mut().wasi().table;
            let Some(body) = table.get::<IncomingResponse>(this.rep())?.body.take() else {
                return Ok(Err(()));
            };
            let body = table.add(Incoming::new(body))?;
            Ok(Ok(Own::<IncomingBodyType>::host(body)))
        },
    )?;
    Ok(())
}
