"""Answers HTTP requests by path. ../README.md lists the paths."""

from urllib.parse import parse_qs, urlsplit

from componentize_py_types import Err, Ok
from wit_world.exports import IncomingHandler as Handler
from wit_world.imports import monotonic_clock, outgoing_handler
from wit_world.imports.types import (
    ErrorCode_HttpRequestUriInvalid,
    Fields,
    IncomingRequest,
    IncomingResponse,
    Method_Other,
    OutgoingBody,
    OutgoingRequest,
    OutgoingResponse,
    ResponseOutparam,
    Scheme_Http,
    Scheme_Https,
)

TEXT = [("content-type", b"text/plain")]

kept = 0


def answer(out, status, fields, pieces, trailers=None):
    """Answers with fields, the pieces of a body, and trailers."""
    response = OutgoingResponse(Fields.from_list(fields))
    response.set_status_code(status)
    body = response.body()
    ResponseOutparam.set(out, Ok(response))
    with body.write() as stream:
        for piece in pieces:
            for at in range(0, len(piece), 4096):
                stream.blocking_write_and_flush(piece[at : at + 4096])
    OutgoingBody.finish(body, trailers)


def text(out, status, content):
    answer(out, status, TEXT, [content.encode()])


def pieces(message: IncomingRequest | IncomingResponse):
    """The pieces of a body, as they arrive."""
    with message.consume() as body, body.stream() as stream:
        try:
            while True:
                yield stream.blocking_read(16384)
        except Err:
            return


def method(request):
    method = request.method()
    if isinstance(method, Method_Other):
        return method.value
    return type(method).__name__.removeprefix("Method_").upper()


def headers(request):
    with request.headers() as fields:
        lines = [f"{name}: {value.decode(errors='replace')}\n" for name, value in fields.entries()]
    return "".join(sorted(lines))


def fetch(url) -> IncomingResponse:
    parts = urlsplit(url)
    schemes = {"http": Scheme_Http, "https": Scheme_Https}
    if parts.scheme not in schemes:
        raise Err(ErrorCode_HttpRequestUriInvalid())
    request = OutgoingRequest(Fields())
    request.set_scheme(schemes[parts.scheme]())
    request.set_authority(parts.netloc)
    request.set_path_with_query((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
    with outgoing_handler.handle(request, None) as future:
        with future.subscribe() as ready:
            ready.block()
        response = future.get().value
    if isinstance(response, Err):
        raise response
    return response.value


def call(out, url):
    try:
        response = fetch(url)
    except Err:
        return text(out, 502, "no answer\n")
    with response:
        answer(out, response.status(), TEXT, pieces(response))


def big(size):
    piece = b"x" * 16384
    for at in range(0, size, len(piece)):
        yield piece[: size - at]


class IncomingHandler(Handler):
    def handle(self, request: IncomingRequest, response_out: ResponseOutparam) -> None:
        global kept
        out = response_out
        target = request.path_with_query() or ""
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match parts.path:
            case "/hello":
                text(out, 200, "hello from Python\n")
            case "/echo":
                fields = [("x-method", method(request).encode()), ("x-path", target.encode())]
                answer(out, 200, fields, pieces(request))
            case "/headers":
                text(out, 200, headers(request))
            case "/count":
                text(out, 200, f"{sum(map(len, pieces(request)))}\n")
            case "/call":
                call(out, query.get("url", ""))
            case "/keep":
                kept += 1
                text(out, 200, f"{kept}\n")
            case "/fail":
                raise RuntimeError("asked to fail")
            case "/slow":
                with monotonic_clock.subscribe_duration(50_000_000) as slept:
                    slept.block()
                text(out, 200, "slept\n")
            case "/big":
                answer(out, 200, [], big(int(query["n"])))
            case "/never":
                pass
            case "/trailers":
                trailers = Fields.from_list([("x-trailer", b"last")])
                answer(out, 200, TEXT, [b"body\n"], trailers)
            case _:
                text(out, 404, "not found\n")
