// Package export_wasi_http_incoming_handler answers HTTP requests by path. ../../README.md lists
// the paths. The generated main package calls Handle and gives this package its name.
package export_wasi_http_incoming_handler

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	. "go.bytecodealliance.org/pkg/wit/types"
	clock "wit_component/wasi_clocks_monotonic_clock"
	outgoing "wit_component/wasi_http_outgoing_handler"
	http "wit_component/wasi_http_types"
)

var kept int

// Handle answers a request.
func Handle(request *http.IncomingRequest, out *http.ResponseOutparam) {
	target := request.PathWithQuery().SomeOr("")
	path, rest, _ := strings.Cut(target, "?")
	query, _ := url.ParseQuery(rest)
	switch path {
	case "/hello":
		text(out, 200, "hello from Go\n")
	case "/echo":
		fields := [][2]string{{"x-method", method(request)}, {"x-path", target}}
		answer(out, 200, fields, None[*http.Fields](), func(write func([]byte) bool) {
			eachPiece(request.Consume().Ok(), write)
		})
	case "/headers":
		text(out, 200, headers(request))
	case "/count":
		count := 0
		eachPiece(request.Consume().Ok(), func(piece []byte) bool {
			count += len(piece)
			return true
		})
		text(out, 200, fmt.Sprintln(count))
	case "/call":
		call(out, query.Get("url"))
	case "/keep":
		kept++
		text(out, 200, fmt.Sprintln(kept))
	case "/fail":
		panic("asked to fail")
	case "/slow":
		slept := clock.SubscribeDuration(50_000_000)
		slept.Block()
		slept.Drop()
		text(out, 200, "slept\n")
	case "/big":
		size, _ := strconv.Atoi(query.Get("n"))
		big(out, size)
	case "/never":
	case "/trailers":
		trailers := http.MakeFields()
		trailers.Append("x-trailer", []byte("last"))
		answer(out, 200, plain, Some(trailers), func(write func([]byte) bool) {
			write([]byte("body\n"))
		})
	default:
		text(out, 404, "not found\n")
	}
}

var plain = [][2]string{{"content-type", "text/plain"}}

// answer sends fields, a body that content writes, and trailers. write is false if the client left.
func answer(out *http.ResponseOutparam, status uint16, fields [][2]string,
	trailers Option[*http.Fields], content func(write func([]byte) bool)) {
	headers := http.MakeFields()
	for _, field := range fields {
		headers.Append(field[0], []byte(field[1]))
	}
	response := http.MakeOutgoingResponse(headers)
	response.SetStatusCode(status)
	body := response.Body().Ok()
	http.ResponseOutparamSet(out, Ok[*http.OutgoingResponse, http.ErrorCode](response))
	stream := body.Write().Ok()
	content(func(piece []byte) bool {
		for part := range slices.Chunk(piece, 4096) {
			if stream.BlockingWriteAndFlush(part).IsErr() {
				return false
			}
		}
		return true
	})
	stream.Drop()
	http.OutgoingBodyFinish(body, trailers)
}

func text(out *http.ResponseOutparam, status uint16, content string) {
	answer(out, status, plain, None[*http.Fields](), func(write func([]byte) bool) {
		write([]byte(content))
	})
}

// eachPiece gives the pieces of a body to each, as they arrive.
func eachPiece(body *http.IncomingBody, each func([]byte) bool) {
	stream := body.Stream().Ok()
	for {
		piece := stream.BlockingRead(16384)
		if piece.IsErr() || !each(piece.Ok()) {
			break
		}
	}
	stream.Drop()
	body.Drop()
}

func method(request *http.IncomingRequest) string {
	method := request.Method()
	if method.Tag() == http.Method_Other {
		return method.Other()
	}
	names := []string{
		"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
	}
	return names[method.Tag()]
}

// headers gives the fields of a request, sorted, one a line.
func headers(request *http.IncomingRequest) string {
	fields := request.Headers()
	var lines []string
	for _, field := range fields.Entries() {
		lines = append(lines, fmt.Sprintf("%s: %s\n", field.F0, field.F1))
	}
	fields.Drop()
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func call(out *http.ResponseOutparam, url string) {
	response, ok := fetch(url)
	if !ok {
		text(out, 502, "no answer\n")
		return
	}
	answer(out, response.Status(), plain, None[*http.Fields](), func(write func([]byte) bool) {
		eachPiece(response.Consume().Ok(), write)
	})
	response.Drop()
}

// fetch sends a GET request and waits for the response.
func fetch(target string) (*http.IncomingResponse, bool) {
	parts, err := url.Parse(target)
	if err != nil || parts.Host == "" {
		return nil, false
	}
	scheme := http.MakeSchemeHttp()
	if parts.Scheme == "https" {
		scheme = http.MakeSchemeHttps()
	}
	request := http.MakeOutgoingRequest(http.MakeFields())
	if request.SetScheme(Some(scheme)).IsErr() ||
		request.SetAuthority(Some(parts.Host)).IsErr() ||
		request.SetPathWithQuery(Some(parts.RequestURI())).IsErr() {
		return nil, false
	}
	sent := outgoing.Handle(request, None[*http.RequestOptions]())
	if sent.IsErr() {
		return nil, false
	}
	future := sent.Ok()
	ready := future.Subscribe()
	ready.Block()
	ready.Drop()
	response := future.Get().Some().Ok()
	future.Drop()
	if response.IsErr() {
		return nil, false
	}
	return response.Ok(), true
}

func big(out *http.ResponseOutparam, size int) {
	piece := bytes.Repeat([]byte("x"), 16384)
	answer(out, 200, nil, None[*http.Fields](), func(write func([]byte) bool) {
		for size > 0 {
			next := min(size, len(piece))
			if !write(piece[:next]) {
				return
			}
			size -= next
		}
	})
}
