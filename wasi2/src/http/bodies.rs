//! `incoming-body`, `future-trailers` and `outgoing-body`, and the error of a stream.

use super::fields::{Fields, Headers, Message, content_length};
use super::names::TYPES;
use crate::message::{ErrorCode, IncomingBody, OutgoingBody, Receiving, Writer, channel};
use crate::methods::{code_of_error, methods, pollable, resource, with_wasi};
use crate::streams::{InputStream, OutputStream};
use crate::table::{Resource, resource_type};
use crate::wasi::{View, Wasi};
use pirn_component::{LinkError, Linker, Own, ResourceType};
use pirn_runtime::HostError;
use pirn_wasi::pipe::Pipe;
use std::task::{Context, Poll, Waker};

/// The resource `incoming-body`.
pub(super) struct Incoming {
    body: Pipe<Receiving>,
    has_stream: bool,
}

impl Incoming {
    pub(super) fn new(body: IncomingBody) -> Self {
        Self {
            body: Pipe::new(Receiving::new(body)),
            has_stream: false,
        }
    }
}

resource_type!(Incoming, TYPES, "incoming-body", ready);

/// The resource `future-trailers`.
struct FutureTrailers {
    body: Pipe<Receiving>,
    is_taken: bool,
}

resource_type!(FutureTrailers, TYPES, "future-trailers");

impl Resource for FutureTrailers {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.body.with(|body| body.poll_end(context))
    }
}

/// The resource `outgoing-body`.
pub(super) struct Outgoing {
    writer: Writer,
    has_stream: bool,
}

impl Outgoing {
    pub(super) fn new(writer: Writer) -> Self {
        Self {
            writer,
            has_stream: false,
        }
    }
}

resource_type!(Outgoing, TYPES, "outgoing-body", ready);

impl Drop for Outgoing {
    fn drop(&mut self) {
        let error = "the guest dropped the body before it was complete";
        self.writer
            .fail(ErrorCode::InternalError(Some(error.to_owned())));
    }
}

/// Completes the bodies that a guest has begun and neither finished nor dropped. Call this after
/// the guest has returned, because some guests do not finish the body of their last response. After
/// a trap, do not call this function: the bodies must remain incomplete.
pub fn complete(wasi: &mut Wasi) {
    for body in wasi.table.all::<Outgoing>() {
        // If the length is wrong, the connection gets the error from the body.
        let _ = body.writer.finish(None);
    }
}

/// A message that a guest receives.
pub(super) trait Received: Resource + ResourceType {
    /// The body, if the guest has not taken it.
    fn body(&mut self) -> &mut Option<IncomingBody>;
}

/// Adds the method `consume` of a message that a guest receives.
pub(super) fn link_consume<T: View, M: Received>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    methods! { linker, M, with_wasi;
        "consume"() => |wasi, this| {
            let Some(body) = wasi.table.get::<M>(this)?.body().take() else {
                return Ok(Err(()));
            };
            let body = body.held(&wasi.host_bytes)?;
            wasi.table.own(Incoming::new(body)).map(Ok)
        };
    }
    Ok(())
}

/// A message that a guest sends.
pub(super) trait Sent: Message {
    const IS_REQUEST: bool;

    /// The body, if the guest has asked for it.
    fn body(&mut self) -> &mut Option<OutgoingBody>;
}

/// Adds the method `body` of a message that a guest sends.
pub(super) fn link_body<T: View, M: Sent>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    methods! { linker, M, with_wasi;
        "body"() => |wasi, this| {
            let message = wasi.table.get::<M>(this)?;
            if message.body().is_some() {
                return Ok(Err(()));
            }
            let Ok(announced) = content_length(message.headers()) else {
                return Ok(Err(()));
            };
            let (writer, body) = channel(announced, M::IS_REQUEST, &wasi.host_bytes)?;
            *message.body() = Some(body);
            wasi.table.own(Outgoing::new(writer)).map(Ok)
        };
    }
    Ok(())
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    link_incoming(linker)?;
    link_trailers(linker)?;
    link_outgoing(linker)?;
    code_of_error(linker, TYPES, "http-error-code", |error| {
        error.downcast_ref::<ErrorCode>().cloned()
    })
}

fn link_incoming<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, Incoming>(linker)?;
    methods! { linker, Incoming, with_wasi;
        "stream"() => |wasi, this| {
            let incoming = wasi.table.get::<Incoming>(this)?;
            if std::mem::replace(&mut incoming.has_stream, true) {
                return Ok(Err(()));
            }
            let stream = InputStream::new(Box::new(incoming.body.clone()));
            wasi.table.own_child(this, stream).map(Ok)
        };
    }
    let name = "[static]incoming-body.finish";
    linker.func(TYPES, name, |state, (this,): (Own<Incoming>,)| {
        let table = &mut state.data_mut().wasi().table;
        let body = table.take::<Incoming>(this.rep())?.body;
        table.own(FutureTrailers {
            body,
            is_taken: false,
        })
    })?;
    Ok(())
}

/// The result of `future-trailers.get`.
type Trailers = Option<Result<Result<Option<Own<Fields>>, ErrorCode>, ()>>;

fn trailers(wasi: &mut Wasi, future: u32) -> Result<Trailers, HostError> {
    let future = wasi.table.get::<FutureTrailers>(future)?;
    let mut context = Context::from_waker(Waker::noop());
    if future.poll_ready(&mut context).is_pending() {
        return Ok(None);
    }
    if std::mem::replace(&mut future.is_taken, true) {
        return Ok(Some(Err(())));
    }
    let end = future.body.with(|body| body.end().cloned());
    Ok(Some(Ok(match end {
        None | Some(Ok(None)) => Ok(None),
        Some(Err(error)) => Err(error),
        Some(Ok(Some(map))) => {
            let headers = Headers::received(map, &wasi.host_bytes)?;
            Ok(Some(wasi.table.own(Fields::immutable(&headers))?))
        }
    })))
}

fn link_trailers<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, FutureTrailers>(linker)?;
    pollable::<T, FutureTrailers>(linker)?;
    methods! { linker, FutureTrailers, with_wasi;
        "get"() => trailers;
    }
    Ok(())
}

fn link_outgoing<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, Outgoing>(linker)?;
    methods! { linker, Outgoing, with_wasi;
        "write"() => |wasi, this| {
            let outgoing = wasi.table.get::<Outgoing>(this)?;
            if std::mem::replace(&mut outgoing.has_stream, true) {
                return Ok(Err(()));
            }
            let stream = OutputStream::new(Box::new(outgoing.writer.clone()));
            wasi.table.own_child(this, stream).map(Ok)
        };
    }
    type Finish = (Own<Outgoing>, Option<Own<Fields>>);
    let name = "[static]outgoing-body.finish";
    linker.func(TYPES, name, |state, (this, trailers): Finish| {
        let table = &mut state.data_mut().wasi().table;
        let outgoing = table.take::<Outgoing>(this.rep())?;
        let trailers = match trailers {
            Some(fields) => Some(table.take::<Fields>(fields.rep())?.headers),
            None => None,
        };
        let trailers = trailers.map(Headers::into_map).transpose()?;
        Ok(outgoing.writer.finish(trailers))
    })?;
    Ok(())
}
