// Package pirn runs guests that aotc compiled, by cgo and pirn.h, whose rules apply.
//
// The linker must find libpirn: set CGO_LDFLAGS to -L with its folder. Handles end by Close. An
// error of a host function in Go ends the guest's call, and errors.Is and errors.As find it in the
// error of the call.
package pirn

/*
#cgo CFLAGS: -I${SRCDIR}/../../../capi/include
#cgo LDFLAGS: -lpirn
#include <stdlib.h>
#include <pirn.h>
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"time"
	"unsafe"
)

// Kind is the type of a value.
type Kind = C.pirn_kind_t

// The types of numbers.
const (
	I32 Kind = C.PIRN_I32
	I64 Kind = C.PIRN_I64
	F32 Kind = C.PIRN_F32
	F64 Kind = C.PIRN_F64
)

// The kinds of errors that programs tell apart most often.
const (
	ErrorTrap     = C.PIRN_ERROR_TRAP
	ErrorExit     = C.PIRN_ERROR_EXIT
	ErrorHost     = C.PIRN_ERROR_HOST
	ErrorKilled   = C.PIRN_ERROR_KILLED
	ErrorDeadline = C.PIRN_ERROR_DEADLINE
	ErrorLink     = C.PIRN_ERROR_LINK
)

// Frame is a WebAssembly function in a backtrace.
type Frame struct {
	Module, Func string
	FuncIndex    uint32
	// WasmOffset is -1 if it is unknown.
	WasmOffset int64
}

// Error says why a function failed.
type Error struct {
	Kind     int
	Message  string
	TrapCode uint32
	ExitCode uint32
	// Frames of the guest, innermost first.
	Frames []Frame
	cause  error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the error of the host function that ended the call, if one did.
func (e *Error) Unwrap() error { return e.cause }

// check converts an error of the library and frees it.
func check(failed *C.pirn_error_t) error {
	if failed == nil {
		return nil
	}
	defer C.pirn_error_delete(failed)
	made := &Error{
		Kind:     int(C.pirn_error_kind(failed)),
		Message:  C.GoString(C.pirn_error_message(failed)),
		TrapCode: uint32(C.pirn_error_trap_code(failed)),
		ExitCode: uint32(C.pirn_error_exit_code(failed)),
	}
	var frame C.pirn_frame_t
	for at := C.size_t(0); C.pirn_error_frame(failed, at, &frame) == 1; at++ {
		made.Frames = append(made.Frames, Frame{
			Module:     C.GoString(frame.module_name),
			Func:       C.GoString(frame.func_name),
			FuncIndex:  uint32(frame.func_index),
			WasmOffset: int64(frame.wasm_offset),
		})
	}
	if user := C.pirn_error_user(failed); user != 0 {
		handle := cgo.Handle(user)
		made.cause = handle.Value().(error)
		handle.Delete()
	}
	return made
}

// Module is a compiled module.
type Module struct{ handle *C.pirn_module_t }

// Open opens a file that aotc wrote.
func Open(path string) (*Module, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	made := &Module{}
	return made, check(C.pirn_module_open(text, &made.handle))
}

// FromBytes opens a module whose file is in memory.
func FromBytes(file []byte) (*Module, error) {
	made := &Module{}
	first := (*C.uint8_t)(unsafe.SliceData(file))
	return made, check(C.pirn_module_from_bytes(first, C.size_t(len(file)), &made.handle))
}

// Bytes is the file of the module.
func (m *Module) Bytes() ([]byte, error) {
	var bytes *C.pirn_bytes_t
	if err := check(C.pirn_module_to_bytes(m.handle, &bytes)); err != nil {
		return nil, err
	}
	defer C.pirn_bytes_delete(bytes)
	data := unsafe.Pointer(C.pirn_bytes_data(bytes))
	return C.GoBytes(data, C.int(C.pirn_bytes_len(bytes))), nil
}

// Close ends the handle.
func (m *Module) Close() { C.pirn_module_delete(m.handle); m.handle = nil }

// Region is a set of slots.
type Region struct{ handle *C.pirn_region_t }

// NewRegion reserves slots for instances with a memory of up to memoryBytesMax bytes.
func NewRegion(slots, memoryBytesMax uint64) (*Region, error) {
	return NewRegionWithMemories(slots, memoryBytesMax, 1)
}

// NewRegionWithMemories reserves slots for instances with several memories. A component can have
// one for each of its core modules.
func NewRegionWithMemories(slots, memoryBytesMax, memories uint64) (*Region, error) {
	options := []C.pirn_region_option_t{
		{option: C.PIRN_REGION_SLOTS, value: C.uint64_t(slots)},
		{option: C.PIRN_REGION_MEMORY_BYTES_MAX, value: C.uint64_t(memoryBytesMax)},
		{option: C.PIRN_REGION_MEMORIES, value: C.uint64_t(memories)},
	}
	made := &Region{}
	return made, check(C.pirn_region_new(&options[0], C.size_t(len(options)), &made.handle))
}

// Close ends the handle.
func (r *Region) Close() { C.pirn_region_delete(r.handle); r.handle = nil }

// Prepared is a module that is linked and checked.
type Prepared struct{ handle *C.pirn_prepared_t }

// Prepare links a module.
func (r *Region) Prepare(module *Module, linker *Linker) (*Prepared, error) {
	made := &Prepared{}
	return made, check(C.pirn_region_prepare(r.handle, module.handle, linker.handle, &made.handle))
}

// Close ends the handle.
func (p *Prepared) Close() { C.pirn_prepared_delete(p.handle); p.handle = nil }

// Func is a function over numbers, looked up and checked once.
type Func struct {
	handle *C.pirn_func_t
	params int
}

// Func looks up an exported function with this type. It may have one result.
func (p *Prepared) Func(name string, params, results []Kind) (*Func, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	made := &Func{params: len(params)}
	return made, check(C.pirn_prepared_typed(p.handle, text,
		unsafe.SliceData(params), C.size_t(len(params)),
		unsafe.SliceData(results), C.size_t(len(results)), &made.handle))
}

// Close ends the handle.
func (f *Func) Close() { C.pirn_func_delete(f.handle); f.handle = nil }

// Wasi is what WASI gives a guest: arguments, and the standard streams of this process.
type Wasi struct{ handle *C.pirn_wasi_t }

// NewWasi makes a context.
func NewWasi(arguments ...string) (*Wasi, error) {
	made := &Wasi{handle: C.pirn_wasi_new()}
	for _, argument := range arguments {
		text := C.CString(argument)
		err := check(C.pirn_wasi_arg(made.handle, text))
		C.free(unsafe.Pointer(text))
		if err != nil {
			C.pirn_wasi_delete(made.handle)
			return nil, err
		}
	}
	return made, check(C.pirn_wasi_inherit_stdio(made.handle))
}

// Instance is a module in its own slot. One goroutine at a time may use it.
type Instance struct{ handle *C.pirn_instance_t }

// Instantiate makes an instance. It waits for a slot, and takes wasi over, which may be nil.
func (p *Prepared) Instantiate(wasi *Wasi) (*Instance, error) {
	var context *C.pirn_wasi_t
	if wasi != nil {
		context, wasi.handle = wasi.handle, nil
	}
	made := &Instance{}
	return made, check(C.pirn_instance_new(p.handle, nil, context, C.UINT64_MAX, &made.handle))
}

// Close ends the instance.
func (i *Instance) Close() { C.pirn_instance_delete(i.handle); i.handle = nil }

func (f *Func) words(args []uint64) (*C.uint64_t, error) {
	if len(args) != f.params {
		return nil, fmt.Errorf("function takes %d words, %d given", f.params, len(args))
	}
	return (*C.uint64_t)(unsafe.SliceData(args)), nil
}

// Call calls a function by words. A deadline of 0 is none.
func (i *Instance) Call(f *Func, deadline time.Duration, args ...uint64) (uint64, error) {
	words, err := f.words(args)
	if err != nil {
		return 0, err
	}
	limits := C.pirn_limits_t{deadline_ns: C.uint64_t(deadline)}
	var result C.uint64_t
	err = check(C.pirn_instance_call_words(i.handle, f.handle, &limits, words, &result))
	return uint64(result), err
}

// Step is the progress of a call that can be suspended.
type Step struct {
	Returned, Asked bool
	Result, Tag     uint64
	Args            []uint64
}

func stepOf(step *C.pirn_step_t) Step {
	made := Step{
		Returned: step.kind == C.PIRN_STEP_RETURNED,
		Asked:    step.kind == C.PIRN_STEP_ASKED,
		Result:   uint64(step.result),
		Tag:      uint64(step.tag),
	}
	for _, word := range step.args[:step.args_count] {
		made.Args = append(made.Args, uint64(word))
	}
	return made
}

// Start starts a call that can be suspended.
func (i *Instance) Start(f *Func, args ...uint64) (Step, error) {
	words, err := f.words(args)
	if err != nil {
		return Step{}, err
	}
	var step C.pirn_step_t
	err = check(C.pirn_instance_start(i.handle, f.handle, nil, words, &step))
	return stepOf(&step), err
}

// Answer answers the question of a suspended call.
func (i *Instance) Answer(f *Func, answer uint64) (Step, error) {
	var step C.pirn_step_t
	err := check(C.pirn_instance_answer(i.handle, f.handle, nil, C.uint64_t(answer), &step))
	return stepOf(&step), err
}

// Read copies bytes of memory 0.
func (i *Instance) Read(address uint64, to []byte) error {
	first := unsafe.Pointer(unsafe.SliceData(to))
	return check(C.pirn_instance_memory_read(i.handle, nil, C.uint64_t(address), first,
		C.size_t(len(to))))
}

// Snapshot ends the instance, and makes a module of its state.
func (i *Instance) Snapshot() (*Module, error) {
	handle := i.handle
	i.handle = nil
	made := &Module{}
	return made, check(C.pirn_instance_snapshot(handle, nil, 0, &made.handle))
}

// KillSwitch stops a guest from any goroutine.
type KillSwitch struct{ handle *C.pirn_kill_switch_t }

// KillSwitch makes a switch for the instance.
func (i *Instance) KillSwitch() (*KillSwitch, error) {
	made := &KillSwitch{}
	return made, check(C.pirn_instance_kill_switch(i.handle, &made.handle))
}

// Kill ends the guest and every later call.
func (k *KillSwitch) Kill() error { return check(C.pirn_kill_switch_kill(k.handle, nil)) }

// IsRunning says whether a call of the instance runs.
func (k *KillSwitch) IsRunning() bool { return C.pirn_kill_switch_is_running(k.handle) == 1 }

// Close ends the handle.
func (k *KillSwitch) Close() { C.pirn_kill_switch_delete(k.handle); k.handle = nil }
