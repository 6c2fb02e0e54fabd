//! `incoming-body`, `future-trailers` and `outgoing-body`, and the error of a stream.

use super::fields::{Fields, Headers, remove_forbidden};
use super::names::{
    FieldsType, FutureTrailersType, IncomingBodyType, OutgoingBodyType, TYPES, resource,
};
use crate::io::IoError;
use crate::message::{ErrorCode, Receiving, Writer};
use crate::pipes::Pipe;
use crate::poll::subscribe;
use crate::streams::{ErrorType, InputStream, InputType, OutputStream, OutputType};
use crate::table::Resource;
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, LinkError, Linker, Own};
use std::task::{Context, Poll};

/// The resource `incoming-body`.
pub(super) struct Incoming {
    body: Pipe<Receiving>,
    has_stream: bool,
}

impl Incoming {
    pub(super) fn new(body: crate::message::IncomingBody) -> Self {
        Self {
            body: Pipe::new(Receiving::new(body)),
            has_stream: false,
        }
    }
}

impl Resource for Incoming {}

/// The resource `future-trailers`.
struct FutureTrailers {
    body: Pipe<Receiving>,
    is_taken: bool,
}

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

impl Resource for Outgoing {}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let error = "the guest dropped the body before it was complete";
        self.writer
            .fail(ErrorCode::InternalError(Some(error.to_owned())));
    }
}

/// Completes the bodies that a guest has begun and neither finished nor dropped. Call this after
/// the guest has returned, because some guests do not finish the body of their last response. Do
/// not call it after a trap. The bodies then remain incomplete.
pub fn complete(wasi: &mut Wasi) {
    for body in wasi.table.all::<Outgoing>() {
        // If the length is wrong, the connection gets the error from the body.
        let _ = body.writer.finish(None);
    }
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    link_incoming(linker)?;
    link_trailers(linker)?;
    link_outgoing(linker)?;
    linker.func(
        TYPES,
        "http-error-code",
        |state, (error,): (Borrow<ErrorType>,)| {
            let error = state.data_mut().wasi().table.get::<IoError>(error.rep())?;
            Ok(error.downcast_ref::<ErrorCode>().cloned())
        },
    )?;
    Ok(())
}

fn link_incoming<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, IncomingBodyType>(linker)?;
    let name = "[method]incoming-body.stream";
    linker.func(
        TYPES,
        name,
        |state, (this,): (Borrow<IncomingBodyType>,)| {
            let table = &mut state.data_mut().wasi().table;
            let incoming = table.get::<Incoming>(this.rep())?;
            if std::mem::replace(&mut incoming.has_stream, true) {
                return Ok(Err(()));
            }
            let stream = InputStream::new(Box::new(incoming.body.clone()));
            let stream = table.add_child(this.rep(), stream)?;
            Ok(Ok(Own::<InputType>::host(stream)))
        },
    )?;
    let name = "[static]incoming-body.finish";
    linker.func(TYPES, name, |state, (this,): (Own<IncomingBodyType>,)| {
        let table = &mut state.data_mut().wasi().table;
        let body = table.take::<Incoming>(this.rep())?.body;
        let trailers = FutureTrailers {
            body,
            is_taken: false,
        };
        table.add(trailers).map(Own::<FutureTrailersType>::host)
    })?;
    Ok(())
}

/// The result of `future-trailers.get`.
type Trailers = Option<Result<Result<Option<Own<FieldsType>>, ErrorCode>, ()>>;

fn link_trailers<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type This = Borrow<FutureTrailersType>;
    resource::<T, FutureTrailersType>(linker)?;
    linker.func(
        TYPES,
        "[method]future-trailers.subscribe",
        |state, (this,): (This,)| subscribe(&mut state.data_mut().wasi().table, this.rep()),
    )?;
    linker.func(
        TYPES,
        "[method]future-trailers.get",
        |state, (this,): (This,)| {
            let Wasi { table, kept, .. } = state.data_mut().wasi();
            let future = table.get::<FutureTrailers>(this.rep())?;
            let mut context = Context::from_waker(std::task::Waker::noop());
            if future.poll_ready(&mut context).is_pending() {
                return Ok(Trailers::None);
            }
            if std::mem::replace(&mut future.is_taken, true) {
                return Ok(Some(Err(())));
            }
            let end = future.body.with(|body| body.end().cloned());
            Ok(Some(Ok(match end {
                None | Some(Ok(None)) => Ok(None),
                Some(Err(error)) => Err(error),
                Some(Ok(Some(mut map))) => {
                    remove_forbidden(&mut map);
                    let headers = Headers::new(map, kept)?;
                    Ok(Some(Own::host(table.add(Fields::immutable(&headers))?)))
                }
            })))
        },
    )?;
    Ok(())
}

fn link_outgoing<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, OutgoingBodyType>(linker)?;
    let name = "[method]outgoing-body.write";
    linker.func(
        TYPES,
        name,
        |state, (this,): (Borrow<OutgoingBodyType>,)| {
            let table = &mut state.data_mut().wasi().table;
            let outgoing = table.get::<Outgoing>(this.rep())?;
            if std::mem::replace(&mut outgoing.has_stream, true) {
                return Ok(Err(()));
            }
            let stream = OutputStream::new(Box::new(outgoing.writer.clone()));
            let stream = table.add_child(this.rep(), stream)?;
            Ok(Ok(Own::<OutputType>::host(stream)))
        },
    )?;
    type Finish = (Own<OutgoingBodyType>, Option<Own<FieldsType>>);
    linker.func(
        TYPES,
        "[static]outgoing-body.finish",
        |state, (this, trailers): Finish| {
            let table = &mut state.data_mut().wasi().table;
            let outgoing = table.take::<Outgoing>(this.rep())?;
            let trailers = match trailers {
                Some(fields) => Some(table.take::<Fields>(fields.rep())?.headers),
                None => None,
            };
            Ok(outgoing.writer.finish(trailers.map(Headers::into_map)))
        },
    )?;
    Ok(())
}
