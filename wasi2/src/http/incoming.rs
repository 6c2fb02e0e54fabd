//! Requests that a guest answers: `incoming-request` and `response-outparam`.

use super::bodies::Incoming;
use super::fields::{Fields, Headers, remove_forbidden};
use super::names::{
    FieldsType, IncomingBodyType, IncomingRequestType, MethodName, OutgoingResponseType,
    ResponseOutparamType, SchemeName, TYPES, resource,
};
use super::responses::OutgoingResponse;
use crate::message::{ErrorCode, IncomingBody, OutgoingBody};
use crate::table::Resource;
use crate::wasi::{View, Wasi};
use bytes::Bytes;
use http::header::HOST;
use http::uri::Scheme;
use http::{Method, Request, Response};
use http_body::Body;
use pirn_component::{Borrow, LinkError, Linker, Own, TypedFunc};
use pirn_runtime::HostError;
use std::error::Error;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The type of [`HANDLE`](super::HANDLE).
pub type Handle = TypedFunc<(Own<IncomingRequestType>, Own<ResponseOutparamType>), ()>;

/// Resolves to the response when the guest sets its head. The inner `Err` is an error that the
/// guest set instead. The receiver fails if the guest set neither.
pub type Answer = oneshot::Receiver<Result<Response<OutgoingBody>, ErrorCode>>;

/// The resource `incoming-request`.
struct IncomingRequest {
    method: Method,
    path_with_query: Option<String>,
    scheme: Option<Scheme>,
    authority: Option<String>,
    headers: Arc<Headers>,
    body: Option<IncomingBody>,
}

impl Resource for IncomingRequest {}

/// The resource `response-outparam`.
struct ResponseOutparam(oneshot::Sender<Result<Response<OutgoingBody>, ErrorCode>>);

impl Resource for ResponseOutparam {}

/// Gives a request to a guest. Returns the parameters for [`HANDLE`](super::HANDLE), and a receiver
/// of the response.
///
/// After the guest has set the head of the response, it may still write the body. So run the call
/// to its end while you send the body.
///
/// # Errors
///
/// [`HostError`] if the guest has too many resources, or if the fields take too much memory.
#[expect(
    clippy::type_complexity,
    reason = "the parameters are those of a component's function"
)]
pub fn begin<B>(
    wasi: &mut Wasi,
    request: Request<B>,
) -> Result<
    (
        (Own<IncomingRequestType>, Own<ResponseOutparamType>),
        Answer,
    ),
    HostError,
>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Error + 'static,
{
    let (mut head, body) = request.into_parts();
    let host = || {
        let host = head.headers.get(HOST)?;
        host.to_str().ok().map(str::to_owned)
    };
    let authority = head.uri.authority().map(ToString::to_string).or_else(host);
    remove_forbidden(&mut head.headers);
    let request = IncomingRequest {
        method: head.method,
        path_with_query: head.uri.path_and_query().map(ToString::to_string),
        scheme: Some(head.uri.scheme().cloned().unwrap_or(Scheme::HTTP)),
        authority,
        headers: Headers::new(head.headers, &wasi.kept)?,
        body: Some(IncomingBody::new(body)),
    };
    let request = wasi.table.add(request)?;
    let (sender, answer) = oneshot::channel();
    let outparam = wasi.table.add(ResponseOutparam(sender))?;
    Ok(((Own::host(request), Own::host(outparam)), answer))
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type This = Borrow<IncomingRequestType>;
    resource::<T, IncomingRequestType>(linker)?;
    linker.func(
        TYPES,
        "[method]incoming-request.method",
        |state, (this,): (This,)| {
            let request = state
                .data_mut()
                .wasi()
                .table
                .get::<IncomingRequest>(this.rep())?;
            Ok(MethodName::from(&request.method))
        },
    )?;
    let name = "[method]incoming-request.path-with-query";
    linker.func(TYPES, name, |state, (this,): (This,)| {
        let request = state
            .data_mut()
            .wasi()
            .table
            .get::<IncomingRequest>(this.rep())?;
        Ok(request.path_with_query.clone())
    })?;
    linker.func(
        TYPES,
        "[method]incoming-request.scheme",
        |state, (this,): (This,)| {
            let request = state
                .data_mut()
                .wasi()
                .table
                .get::<IncomingRequest>(this.rep())?;
            Ok(request.scheme.as_ref().map(SchemeName::from))
        },
    )?;
    linker.func(
        TYPES,
        "[method]incoming-request.authority",
        |state, (this,): (This,)| {
            let request = state
                .data_mut()
                .wasi()
                .table
                .get::<IncomingRequest>(this.rep())?;
            Ok(request.authority.clone())
        },
    )?;
    linker.func(
        TYPES,
        "[method]incoming-request.headers",
        |state, (this,): (This,)| {
            let table = &mut state.data_mut().wasi().table;
            let fields = Fields::immutable(&table.get::<IncomingRequest>(this.rep())?.headers);
            table
                .add_child(this.rep(), fields)
                .map(Own::<FieldsType>::host)
        },
    )?;
    linker.func(
        TYPES,
        "[method]incoming-request.consume",
        |state, (this,): (This,)| {
            let table = &mut state.data_mut().wasi().table;
            let Some(body) = table.get::<IncomingRequest>(this.rep())?.body.take() else {
                return Ok(Err(()));
            };
            let body = table.add(Incoming::new(body))?;
            Ok(Ok(Own::<IncomingBodyType>::host(body)))
        },
    )?;
    link_outparam(linker)
}

fn link_outparam<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, ResponseOutparamType>(linker)?;
    type Set = (
        Own<ResponseOutparamType>,
        Result<Own<OutgoingResponseType>, ErrorCode>,
    );
    let name = "[static]response-outparam.set";
    linker.func(TYPES, name, |state, (this, response): Set| {
        let table = &mut state.data_mut().wasi().table;
        let ResponseOutparam(sender) = table.take(this.rep())?;
        let response = match response {
            Err(error) => Err(error),
            Ok(response) => table.take::<OutgoingResponse>(response.rep())?.answer(),
        };
        // The receiver may be gone, because the client has hung up.
        let _ = sender.send(response);
        Ok(())
    })?;
    type Inform = (Borrow<ResponseOutparamType>, u16, Own<FieldsType>);
    let name = "[method]response-outparam.send-informational";
    linker.func(TYPES, name, |state, (_, status, fields): Inform| {
        state.data_mut().wasi().table.take::<Fields>(fields.rep())?;
        Ok(Err::<(), _>(match (100..200).contains(&status) {
            true => ErrorCode::internal("informational responses are not supported"),
            false => ErrorCode::HttpProtocolError,
        }))
    })?;
    Ok(())
}
