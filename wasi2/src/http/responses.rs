//! `outgoing-response` and `incoming-response`.

use super::bodies::{Received, Sent, link_body, link_consume};
use super::fields::{Fields, Headers, Message, content_length, link_headers};
use super::names::TYPES;
use crate::message::{ErrorCode, IncomingBody, OutgoingBody};
use crate::methods::{itself, methods, resource};
use crate::table::resource_type;
use crate::wasi::View;
use http::header::CONTENT_LENGTH;
use http::{Response, StatusCode};
use pirn_component::{AbiError, LinkError, Linker, Own};
use std::sync::Arc;

/// The resource `outgoing-response`.
pub(super) struct OutgoingResponse {
    status: StatusCode,
    headers: Arc<Headers>,
    /// The body, if the guest has asked for it.
    body: Option<OutgoingBody>,
}

resource_type!(OutgoingResponse, TYPES, "outgoing-response", ready);

impl Message for OutgoingResponse {
    fn headers(&self) -> &Arc<Headers> {
        &self.headers
    }
}

impl Sent for OutgoingResponse {
    const IS_REQUEST: bool = false;

    fn body(&mut self) -> &mut Option<OutgoingBody> {
        &mut self.body
    }
}

impl OutgoingResponse {
    /// The response for the client. Its extensions hold the count of the memory of its fields.
    pub(super) fn answer(self) -> Result<Result<Response<OutgoingBody>, ErrorCode>, AbiError> {
        // With two lengths, a client and a proxy could read different responses (smuggling).
        if content_length(&self.headers).is_err() {
            return Ok(Err(ErrorCode::HttpProtocolError));
        }
        let (headers, held) = Headers::into_map(self.headers)?;
        let body = self.body.unwrap_or_else(OutgoingBody::empty);
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        response.extensions_mut().insert(Arc::new(held));
        if self.status == StatusCode::NO_CONTENT {
            // A client that trusts `Content-Length` would wait for a body (RFC 9110, section 8.6).
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        Ok(Ok(response))
    }
}

/// The resource `incoming-response`.
pub(super) struct IncomingResponse {
    pub(super) status: StatusCode,
    pub(super) headers: Arc<Headers>,
    pub(super) body: Option<IncomingBody>,
}

resource_type!(IncomingResponse, TYPES, "incoming-response", ready);

impl Message for IncomingResponse {
    fn headers(&self) -> &Arc<Headers> {
        &self.headers
    }
}

impl Received for IncomingResponse {
    fn body(&mut self) -> &mut Option<IncomingBody> {
        &mut self.body
    }
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    link_outgoing(linker)?;
    link_incoming(linker)
}

fn link_outgoing<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, OutgoingResponse>(linker)?;
    let name = "[constructor]outgoing-response";
    linker.func(TYPES, name, |state, (fields,): (Own<Fields>,)| {
        let table = &mut state.data_mut().wasi().table;
        let headers = table.take::<Fields>(fields.rep())?.headers;
        table.own(OutgoingResponse {
            status: StatusCode::OK,
            headers,
            body: None,
        })
    })?;
    methods! { linker, OutgoingResponse, itself;
        "status-code"() => |response| Ok(response.status.as_u16());
        "set-status-code"(code: u16) => |response| {
            Ok(match StatusCode::from_u16(code) {
                // An informational status (1xx) cannot be the final response.
                Ok(status) if !status.is_informational() => {
                    response.status = status;
                    Ok(())
                }
                _ => Err(()),
            })
        };
    }
    link_headers::<T, OutgoingResponse>(linker)?;
    link_body::<T, OutgoingResponse>(linker)
}

fn link_incoming<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, IncomingResponse>(linker)?;
    methods! { linker, IncomingResponse, itself;
        "status"() => |response| Ok(response.status.as_u16());
    }
    link_headers::<T, IncomingResponse>(linker)?;
    link_consume::<T, IncomingResponse>(linker)
}
