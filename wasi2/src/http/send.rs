//! `outgoing-handler` and `future-incoming-response`.

use super::fields::Headers;
use super::names::TYPES;
use super::outgoing::{OutgoingRequest, RequestOptions};
use super::responses::IncomingResponse;
use crate::limits::{CONNECTION_BUFFER_MAX, CONNECTIONS_MAX};
use crate::message::{ErrorCode, IncomingBody, OutgoingBody};
use crate::methods::{methods, pollable, resource, with_wasi};
use crate::quota::Counted;
use crate::resolver::Lookups;
use crate::table::{Resource, resource_type};
use crate::wasi::{View, Wasi};
use http::{Request, Response};
use pirn_component::{HeldBytes, LinkError, Linker, Own};
use pirn_runtime::HostError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::task::JoinHandle;

/// The resource `future-incoming-response`: a task that sends a request.
enum FutureResponse {
    Pending(Task),
    Ready(Result<Response<IncomingBody>, ErrorCode>),
    Taken,
}

/// A task that is aborted on drop.
struct Task(JoinHandle<Result<Response<IncomingBody>, ErrorCode>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

resource_type!(FutureResponse, TYPES, "future-incoming-response");

impl Resource for FutureResponse {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self::Pending(task) = self else {
            return Poll::Ready(());
        };
        let Poll::Ready(ended) = Pin::new(&mut task.0).poll(context) else {
            return Poll::Pending;
        };
        let ended = ended.unwrap_or_else(|error| Err(ErrorCode::internal(error)));
        *self = Self::Ready(ended);
        Poll::Ready(())
    }
}

/// Begins to send a request. `held` counts the memory of its head.
fn send(
    wasi: &mut Wasi,
    mut request: Request<OutgoingBody>,
    mut held: HeldBytes,
    options: &RequestOptions,
) -> Result<FutureResponse, ErrorCode> {
    let Some(outgoing) = wasi.config.outgoing.as_ref().map(Arc::clone) else {
        return Err(ErrorCode::HttpRequestDenied);
    };
    let token = wasi.connections.take(CONNECTIONS_MAX);
    let token = token.ok_or(ErrorCode::ConnectionLimitReached)?;
    // The connection has a read buffer and a write buffer.
    let bytes = held.bytes() + 2 * CONNECTION_BUFFER_MAX;
    held.set(bytes)
        .map_err(|_| ErrorCode::ConnectionLimitReached)?;
    let connection = Counted::new(token, held);
    request.extensions_mut().insert(Lookups {
        resolver: wasi.config.resolver.clone(),
        user: wasi.user(),
        connection: Some(connection.clone()),
    });
    let sending = outgoing.send(request, options.0)?;
    // The task sends the request while the guest writes the body.
    let task = tokio::spawn(async move {
        let response = sending.await?;
        Ok(response.map(|body| body.counted(connection)))
    });
    Ok(FutureResponse::Pending(Task(task)))
}

/// The result of `future-incoming-response.get`.
type Got = Option<Result<Result<Own<IncomingResponse>, ErrorCode>, ()>>;

fn get(wasi: &mut Wasi, future: u32) -> Result<Got, HostError> {
    let future = wasi.table.get::<FutureResponse>(future)?;
    let mut context = Context::from_waker(Waker::noop());
    if future.poll_ready(&mut context).is_pending() {
        return Ok(None);
    }
    let FutureResponse::Ready(response) = std::mem::replace(future, FutureResponse::Taken) else {
        return Ok(Some(Err(())));
    };
    Ok(Some(Ok(match response {
        Err(error) => Err(error),
        Ok(response) => {
            let (head, body) = response.into_parts();
            let response = IncomingResponse {
                status: head.status,
                headers: Headers::received(head.headers, &wasi.host_bytes)?,
                body: Some(body),
            };
            Ok(wasi.table.own(response)?)
        }
    })))
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type Handle = (Own<OutgoingRequest>, Option<Own<RequestOptions>>);
    let interface = "wasi:http/outgoing-handler@0.2.12";
    linker.func(interface, "handle", |state, (request, options): Handle| {
        let wasi = state.data_mut().wasi();
        let request = wasi.table.take::<OutgoingRequest>(request.rep())?;
        let options = match options {
            Some(options) => wasi.table.take::<RequestOptions>(options.rep())?,
            None => RequestOptions::default(),
        };
        let (request, held) = match request.request()? {
            Ok(request) => request,
            Err(error) => return Ok(Err(error)),
        };
        Ok(match send(wasi, request, held, &options) {
            Err(error) => Err(error),
            Ok(future) => Ok(wasi.table.own(future)?),
        })
    })?;
    resource::<T, FutureResponse>(linker)?;
    pollable::<T, FutureResponse>(linker)?;
    methods! { linker, FutureResponse, with_wasi;
        "get"() => get;
    }
    Ok(())
}
