package pirn

/*
#include <stdlib.h>
#include <pirn.h>

extern pirn_error_t *pirnGoCall(void *, pirn_caller_t *, uint64_t *, uint64_t *);
extern void pirnGoFree(void *);

// The env of a host function is a cgo.Handle, a number. C converts it, so that no Go code has a
// pointer that points nowhere.
static pirn_error_t *add_words(pirn_linker_t *linker, const char *module, const char *name,
                               const pirn_kind_t *params, size_t params_count,
                               const pirn_kind_t *results, size_t results_count, uintptr_t env) {
    return pirn_linker_words(linker, module, name, params, params_count, results, results_count,
                             (pirn_host_words_t)pirnGoCall, (void *)env, pirnGoFree);
}
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"unsafe"
)

// Linker is what guests can import.
type Linker struct{ handle *C.pirn_linker_t }

// NewLinker makes an empty linker.
func NewLinker() *Linker { return &Linker{C.pirn_linker_new()} }

// Close ends the handle.
func (l *Linker) Close() { C.pirn_linker_delete(l.handle); l.handle = nil }

// Wasi adds WASI preview 1.
func (l *Linker) Wasi() error { return check(C.pirn_linker_wasi(l.handle)) }

// Caller is a host function's access to the guest. Valid until the function returns.
type Caller struct{ handle *C.pirn_caller_t }

// Read copies bytes of memory 0.
func (c Caller) Read(address, size uint64) ([]byte, error) {
	var bytes *C.uint8_t
	err := check(C.pirn_caller_memory_slice(c.handle, nil, C.uint64_t(address), C.uint64_t(size),
		&bytes))
	if err != nil {
		return nil, err
	}
	return C.GoBytes(unsafe.Pointer(bytes), C.int(size)), nil
}

// HostFunc is a host function by words. Several goroutines may call it at the same time.
type HostFunc func(caller Caller, args []uint64) (uint64, error)

type hostFunc struct {
	call   HostFunc
	params int
}

// Func adds a host function over numbers.
func (l *Linker) Func(module, name string, params, results []Kind, call HostFunc) error {
	moduleText, nameText := C.CString(module), C.CString(name)
	defer C.free(unsafe.Pointer(moduleText))
	defer C.free(unsafe.Pointer(nameText))
	env := cgo.NewHandle(hostFunc{call, len(params)})
	return check(C.add_words(l.handle, moduleText, nameText,
		unsafe.SliceData(params), C.size_t(len(params)),
		unsafe.SliceData(results), C.size_t(len(results)), C.uintptr_t(env)))
}

// Ask adds a function whose calls suspend the guest: see Instance.Start.
func (l *Linker) Ask(module, name string, params, results []Kind, tag uint64) error {
	moduleText, nameText := C.CString(module), C.CString(name)
	defer C.free(unsafe.Pointer(moduleText))
	defer C.free(unsafe.Pointer(nameText))
	return check(C.pirn_linker_ask(l.handle, moduleText, nameText,
		unsafe.SliceData(params), C.size_t(len(params)),
		unsafe.SliceData(results), C.size_t(len(results)), C.uint64_t(tag)))
}

//export pirnGoCall
func pirnGoCall(env unsafe.Pointer, caller *C.pirn_caller_t, args, result *C.uint64_t) (
	failed *C.pirn_error_t) {
	// No panic may leave a host function.
	defer func() {
		if panicked := recover(); panicked != nil {
			failed = fail(fmt.Errorf("host function panicked: %v", panicked))
		}
	}()
	host := cgo.Handle(uintptr(env)).Value().(hostFunc)
	words := unsafe.Slice((*uint64)(unsafe.Pointer(args)), host.params)
	answer, err := host.call(Caller{caller}, words)
	if err != nil {
		return fail(err)
	}
	*result = C.uint64_t(answer)
	return nil
}

// fail makes an error that carries a Go error to the caller of the guest.
func fail(err error) *C.pirn_error_t {
	text := C.CString(err.Error())
	defer C.free(unsafe.Pointer(text))
	return C.pirn_error_new(text, C.uint64_t(cgo.NewHandle(err)))
}

//export pirnGoFree
func pirnGoFree(env unsafe.Pointer) { cgo.Handle(uintptr(env)).Delete() }
