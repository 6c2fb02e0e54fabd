//! Requests that a guest answers: `incoming-request` and `response-outparam`.

use super::bodies::{Received, link_consume};
use super::fields::{Fields, Headers, Message, link_headers};
use super::names::{MethodName, SchemeName, TYPES};
use super::responses::OutgoingResponse;
use crate::message::{ErrorCode, IncomingBody, OutgoingBody};
use crate::methods::{itself, methods, resource};
use crate::table::resource_type;
use crate::wasi::{View, Wasi};
use bytes::Bytes;
use http::header::HOST;
use http::uri::Scheme;
use http::{Method, Request, Response};
use http_body::Body;
use pirn_component::{Borrow, HeldBytes, LinkError, Linker, Own, TypedFunc};
use pirn_runtime::HostError;
use std::error::Error;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The type of [`HANDLE`](super::HANDLE).
pub type Handle = TypedFunc<(Own<IncomingRequest>, Own<ResponseOutparam>), ()>;

/// Resolves to the response when the guest sets its head. The inner `Err` is an error that the
/// guest set instead of a response. The receiver fails if the guest set neither response nor error.
pub type Answer = oneshot::Receiver<Result<Response<OutgoingBody>, ErrorCode>>;

/// The resource `incoming-request`.
pub struct IncomingRequest {
    method: Method,
    path_with_query: Option<String>,
    scheme: Option<Scheme>,
    authority: Option<String>,
    headers: Arc<Headers>,
    body: Option<IncomingBody>,
    /// Counts the memory of the path and the authority.
    _held: HeldBytes,
}

resource_type!(IncomingRequest, TYPES, "incoming-request", ready);

impl Message for IncomingRequest {
    fn headers(&self) -> &Arc<Headers> {
        &self.headers
    }
}

impl Received for IncomingRequest {
    fn body(&mut self) -> &mut Option<IncomingBody> {
        &mut self.body
    }
}

/// The resource `response-outparam`.
pub struct ResponseOutparam(oneshot::Sender<Result<Response<OutgoingBody>, ErrorCode>>);

resource_type!(ResponseOutparam, TYPES, "response-outparam", ready);

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
) -> Result<((Own<IncomingRequest>, Own<ResponseOutparam>), Answer), HostError>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Error + 'static,
{
    let (head, body) = request.into_parts();
    let host = || {
        let host = head.headers.get(HOST)?;
        host.to_str().ok().map(str::to_owned)
    };
    let authority = head.uri.authority().map(ToString::to_string).or_else(host);
    let path_with_query = head.uri.path_and_query().map(ToString::to_string);
    let bytes = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let texts = bytes(&path_with_query) + bytes(&authority);
    let request = IncomingRequest {
        _held: wasi.host_bytes.hold(texts)?,
        method: head.method,
        path_with_query,
        scheme: Some(head.uri.scheme().cloned().unwrap_or(Scheme::HTTP)),
        authority,
        headers: Headers::received(head.headers, &wasi.host_bytes)?,
        body: Some(IncomingBody::new(body)),
    };
    let request = wasi.table.own(request)?;
    let (sender, answer) = oneshot::channel();
    let outparam = wasi.table.own(ResponseOutparam(sender))?;
    Ok(((request, outparam), answer))
}

pub(super) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, IncomingRequest>(linker)?;
    methods! { linker, IncomingRequest, itself;
        "method"() => |request| Ok(MethodName::from(&request.method));
        "path-with-query"() => |request| Ok(request.path_with_query.clone());
        "scheme"() => |request| Ok(request.scheme.as_ref().map(SchemeName::from));
        "authority"() => |request| Ok(request.authority.clone());
    }
    link_headers::<T, IncomingRequest>(linker)?;
    link_consume::<T, IncomingRequest>(linker)?;
    link_outparam(linker)
}

fn link_outparam<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    resource::<T, ResponseOutparam>(linker)?;
    type Set = (
        Own<ResponseOutparam>,
        Result<Own<OutgoingResponse>, ErrorCode>,
    );
    let name = "[static]response-outparam.set";
    linker.func(TYPES, name, |state, (this, response): Set| {
        let table = &mut state.data_mut().wasi().table;
        let ResponseOutparam(sender) = table.take(this.rep())?;
        let response = match response {
            // The server keeps the error after the guest has ended.
            Err(error) => Err(error.shortened()),
            Ok(response) => table.take::<OutgoingResponse>(response.rep())?.answer()?,
        };
        // The receiver may be gone, because the client has hung up.
        let _ = sender.send(response);
        Ok(())
    })?;
    type Inform = (Borrow<ResponseOutparam>, u16, Own<Fields>);
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
