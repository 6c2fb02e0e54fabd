package pirn

/*
#include <stdlib.h>
#include <pirn.h>

extern pirn_error_t *pirnGoComponentCall(void *, pirn_component_caller_t *,
                                         pirn_component_value_t *, size_t);
extern void pirnGoFree(void *);

// As add_words: C converts the cgo.Handle.
static pirn_error_t *add_component_func(pirn_component_linker_t *linker, const char *interface,
                                        const char *name, uintptr_t env) {
    return pirn_component_linker_func(linker, interface, name,
                                      (pirn_component_host_t)pirnGoComponentCall, (void *)env,
                                      pirnGoFree);
}
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"time"
	"unsafe"
)

// Component is a compiled component.
type Component struct{ handle *C.pirn_component_t }

// Component reads the component in a module. The module may be closed after that.
func (m *Module) Component() (*Component, error) {
	made := &Component{}
	return made, check(C.pirn_component_new(m.handle, &made.handle))
}

// Close ends the handle.
func (c *Component) Close() { C.pirn_component_delete(c.handle); c.handle = nil }

// ComponentLinker is what components can import.
type ComponentLinker struct{ handle *C.pirn_component_linker_t }

// NewComponentLinker makes an empty linker.
func NewComponentLinker() *ComponentLinker {
	return &ComponentLinker{C.pirn_component_linker_new()}
}

// Close ends the handle.
func (l *ComponentLinker) Close() { C.pirn_component_linker_delete(l.handle); l.handle = nil }

// Wasi adds WASI 0.2.
func (l *ComponentLinker) Wasi() error { return check(C.pirn_component_linker_wasi(l.handle)) }

// ComponentHostFunc is a host function over values: see Call. It returns nil if the function has no
// result. Several goroutines may call it at the same time.
type ComponentHostFunc func(args []any) (any, error)

// Func adds a host function to an interface, such as "example:shop/prices".
func (l *ComponentLinker) Func(interface_, name string, call ComponentHostFunc) error {
	interfaceText, nameText := C.CString(interface_), C.CString(name)
	defer C.free(unsafe.Pointer(interfaceText))
	defer C.free(unsafe.Pointer(nameText))
	env := cgo.NewHandle(call)
	return check(C.add_component_func(l.handle, interfaceText, nameText, C.uintptr_t(env)))
}

//export pirnGoComponentCall
func pirnGoComponentCall(env unsafe.Pointer, caller *C.pirn_component_caller_t,
	args *C.pirn_component_value_t, count C.size_t) (failed *C.pirn_error_t) {
	// No panic may leave a host function.
	defer func() {
		if panicked := recover(); panicked != nil {
			failed = fail(fmt.Errorf("host function panicked: %v", panicked))
		}
	}()
	host := cgo.Handle(uintptr(env)).Value().(ComponentHostFunc)
	answer, err := host(goValues(args, count))
	if err != nil {
		return fail(err)
	}
	if answer == nil {
		return nil
	}
	memory := &arena{}
	defer memory.free()
	value, err := memory.values([]any{answer})
	if err != nil {
		return fail(err)
	}
	return C.pirn_component_caller_return(caller, value)
}

// ComponentPrepared is a component that is linked and checked.
type ComponentPrepared struct{ handle *C.pirn_component_prepared_t }

// PrepareComponent links a component. It needs a region of NewRegionWithMemories if it has several
// memories.
func (r *Region) PrepareComponent(component *Component, linker *ComponentLinker) (
	*ComponentPrepared, error) {
	made := &ComponentPrepared{}
	return made, check(C.pirn_region_prepare_component(r.handle, component.handle, linker.handle,
		&made.handle))
}

// Close ends the handle.
func (p *ComponentPrepared) Close() { C.pirn_component_prepared_delete(p.handle); p.handle = nil }

// ComponentFunc is an exported function.
type ComponentFunc struct{ handle *C.pirn_component_func_t }

// Func looks up an exported function. Its name may be below an interface:
// "example:shop/till#total".
func (p *ComponentPrepared) Func(name string) (*ComponentFunc, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	made := &ComponentFunc{}
	return made, check(C.pirn_component_prepared_func(p.handle, text, &made.handle))
}

// Type is the function's type, as WIT writes it.
func (f *ComponentFunc) Type() string { return C.GoString(C.pirn_component_func_type(f.handle)) }

// Close ends the handle.
func (f *ComponentFunc) Close() { C.pirn_component_func_delete(f.handle); f.handle = nil }

// ComponentWasi is what WASI 0.2 gives a component: arguments, and the standard streams of this
// process.
type ComponentWasi struct{ handle *C.pirn_wasi2_t }

// NewComponentWasi makes a context.
func NewComponentWasi(arguments ...string) (*ComponentWasi, error) {
	made := &ComponentWasi{handle: C.pirn_wasi2_new()}
	for _, argument := range arguments {
		text := C.CString(argument)
		err := check(C.pirn_wasi2_arg(made.handle, text))
		C.free(unsafe.Pointer(text))
		if err != nil {
			C.pirn_wasi2_delete(made.handle)
			return nil, err
		}
	}
	return made, check(C.pirn_wasi2_inherit_stdio(made.handle))
}

// ComponentInstance is a component in its own slot. One goroutine at a time may use it.
type ComponentInstance struct{ handle *C.pirn_component_instance_t }

// Instantiate makes an instance. It waits for a slot, and takes wasi over, which may be nil.
func (p *ComponentPrepared) Instantiate(wasi *ComponentWasi) (*ComponentInstance, error) {
	var context *C.pirn_wasi2_t
	if wasi != nil {
		context, wasi.handle = wasi.handle, nil
	}
	made := &ComponentInstance{}
	return made, check(C.pirn_component_instance_new(p.handle, nil, context, C.UINT64_MAX,
		&made.handle))
}

// Close ends the instance.
func (i *ComponentInstance) Close() { C.pirn_component_instance_delete(i.handle); i.handle = nil }

// Call calls a function. A deadline of 0 is none. The result is nil if the function has none.
//
// A value of the component model is a value of Go of one of these types:
//
//	bool, s8 ... u64, f32, f64     bool, int8 ... uint64, float32, float64
//	char, string, enum             Char, string, Enum
//	list, tuple, record, variant   List, Tuple, Record, Variant
//	option, result, flags          Option, Result, Flags
//	own, borrow                    Own, Borrow
func (i *ComponentInstance) Call(f *ComponentFunc, deadline time.Duration, args ...any) (
	any, error) {
	memory := &arena{}
	defer memory.free()
	values, err := memory.values(args)
	if err != nil {
		return nil, err
	}
	var result *C.pirn_component_owned_t
	err = check(C.pirn_component_instance_call(i.handle, f.handle, C.uint64_t(deadline), values,
		C.size_t(len(args)), &result))
	if err != nil || result == nil {
		return nil, err
	}
	defer C.pirn_component_owned_delete(result)
	return goValue(C.pirn_component_owned_value(result)), nil
}

// Run runs a command, and returns its exit code.
func (i *ComponentInstance) Run(deadline time.Duration) (uint32, error) {
	var code C.uint32_t
	err := check(C.pirn_component_instance_run(i.handle, C.uint64_t(deadline), &code))
	return uint32(code), err
}
