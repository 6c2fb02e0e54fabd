// A small web program over CGI: it describes its request, and echoes the body.
//
// ../../rust/src/bin/web.rs gives the same responses; ../../README.md describes them. Only the last
// line depends on CGI: any http.Handler can be served in this way.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"os"
	"sort"
	"strings"
)

const language = "Go"

// request writes the method, path, query, fields that start with X-, and length of the body.
func request(w io.Writer, r *http.Request, body []byte) {
	fmt.Fprintf(w, "language: %s\nmethod: %s\npath: %s\nquery: %s\n", language, r.Method, r.URL.Path, r.URL.RawQuery)
	var fields []string
	for name, values := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-") {
			fields = append(fields, fmt.Sprintf("%s: %s\n", name, strings.Join(values, ", ")))
		}
	}
	sort.Strings(fields)
	fmt.Fprintf(w, "%sbody: %d bytes\n", strings.Join(fields, ""), len(body))
}

func serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	switch path := strings.TrimPrefix(r.URL.Path, os.Getenv("SCRIPT_NAME")); path {
	case "", "/":
		fmt.Fprintf(w, "hello from %s\n", language)
	case "/request":
		request(w, r, body)
	case "/echo":
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.Write(body)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, "no %s here\n", path)
	}
}

func main() {
	if err := cgi.Serve(http.HandlerFunc(serve)); err != nil {
		log.Fatal(err)
	}
}
