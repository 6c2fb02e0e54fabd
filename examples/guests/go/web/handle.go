//go:build wasip1

package main

import (
	"net/http"
	"net/http/cgi"
	"os"
	"strings"
	"unsafe"
)

// handle answers one request, if the program is built as a reactor (-buildmode=c-shared). The
// server calls it in an instance that has started, maybe long ago and without this request's
// variables: Go copies its environment at the start, so handle copies it again.
//
//go:wasmexport handle
func handle() int32 {
	if !copyEnvironment() {
		return 1
	}
	if err := cgi.Serve(http.HandlerFunc(serve)); err != nil {
		return 2
	}
	return 0
}

//go:wasmimport wasi_snapshot_preview1 environ_sizes_get
//go:noescape
func environSizesGet(count, bytes unsafe.Pointer) uint32

//go:wasmimport wasi_snapshot_preview1 environ_get
//go:noescape
func environGet(pointers, text unsafe.Pointer) uint32

// copyEnvironment replaces the environment by that of the WASI context.
func copyEnvironment() bool {
	var count, bytes uint32
	if environSizesGet(unsafe.Pointer(&count), unsafe.Pointer(&bytes)) != 0 {
		return false
	}
	os.Clearenv()
	if count == 0 {
		return true
	}
	pointers, text := make([]uint32, count), make([]byte, bytes)
	if environGet(unsafe.Pointer(&pointers[0]), unsafe.Pointer(&text[0])) != 0 {
		return false
	}
	for _, variable := range strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00") {
		if name, value, ok := strings.Cut(variable, "="); ok {
			os.Setenv(name, value)
		}
	}
	return true
}
