//! The shortest handler of `wasi:http/proxy`.

use std::io::Write as _;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{
    Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam,
};

struct Hello;

impl Guest for Hello {
    fn handle(_: IncomingRequest, out: ResponseOutparam) {
        let response = OutgoingResponse::new(Fields::new());
        let body = response.body().expect("it is taken once");
        ResponseOutparam::set(out, Ok(response));
        let mut stream = body.write().expect("it is taken once");
        stream.write_all(b"hello").expect("the caller reads");
        drop(stream);
        OutgoingBody::finish(body, None).expect("the body is complete");
    }
}

wasip2::http::proxy::export!(Hello);
