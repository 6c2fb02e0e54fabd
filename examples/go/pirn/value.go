package pirn

/*
#include <stdlib.h>
#include <pirn.h>
*/
import "C"

import (
	"fmt"
	"unsafe"
)

type (
	// Char is a Unicode scalar value.
	Char rune
	// Enum is the name of a case.
	Enum string
	// List has elements of one type.
	List []any
	// Tuple has elements of several types.
	Tuple []any
	// Flags are the names of the flags that are set.
	Flags []string
	// Field is a field of a record.
	Field struct {
		Name  string
		Value any
	}
	// Record has the fields of its type, in that order.
	Record []Field
	// Variant is a case and its payload, which is nil if the case has none.
	Variant struct {
		Case    string
		Payload any
	}
	// Option has a value, or nil.
	Option struct{ Value any }
	// Result has the payload of success or failure, or nil if there is none.
	Result struct {
		IsError bool
		Payload any
	}
	// Resource is a resource of the embedder, with only Rep, or one that an instance gave.
	Resource struct {
		Rep, TypeIndex uint32
		Owner          uint64
	}
	// Own is a resource that the receiver has.
	Own Resource
	// Borrow is a resource that the receiver may use during the call.
	Borrow Resource
)

// cValue is a value for C. cgo has a union as an array of bytes.
type cValue = C.pirn_component_value_t

// arena is memory of C for values. The library copies them before a function returns.
type arena struct{ blocks []unsafe.Pointer }

func (a *arena) free() {
	for _, block := range a.blocks {
		C.free(block)
	}
}

// block allocates zeros.
func (a *arena) block(count int, size uintptr) unsafe.Pointer {
	made := C.calloc(C.size_t(max(count, 1)), C.size_t(size))
	a.blocks = append(a.blocks, made)
	return made
}

// text copies a text, with a zero byte after it.
func (a *arena) text(text string) *C.char {
	made := C.CString(text)
	a.blocks = append(a.blocks, unsafe.Pointer(made))
	return made
}

// values converts values to an array of C.
func (a *arena) values(values []any) (*cValue, error) {
	first := (*cValue)(a.block(len(values), unsafe.Sizeof(cValue{})))
	made := unsafe.Slice(first, len(values))
	for at, value := range values {
		if err := a.put(&made[at], value); err != nil {
			return nil, err
		}
	}
	return first, nil
}

// payload converts a value that may be nil.
func (a *arena) payload(value any) (*cValue, error) {
	if value == nil {
		return nil, nil
	}
	return a.values([]any{value})
}

// set writes the kind and the content of a value.
func set[T any](to *cValue, kind C.pirn_component_kind_t, content T) {
	to.kind = kind
	*(*T)(unsafe.Pointer(&to.of)) = content
}

// get reads the content of a value.
func get[T any](value *cValue) T { return *(*T)(unsafe.Pointer(&value.of)) }

// put converts a value.
func (a *arena) put(to *cValue, value any) (err error) {
	switch value := value.(type) {
	case bool:
		set(to, C.PIRN_COMPONENT_BOOL, value)
	case int8:
		set(to, C.PIRN_COMPONENT_S8, value)
	case uint8:
		set(to, C.PIRN_COMPONENT_U8, value)
	case int16:
		set(to, C.PIRN_COMPONENT_S16, value)
	case uint16:
		set(to, C.PIRN_COMPONENT_U16, value)
	case int32:
		set(to, C.PIRN_COMPONENT_S32, value)
	case uint32:
		set(to, C.PIRN_COMPONENT_U32, value)
	case int64:
		set(to, C.PIRN_COMPONENT_S64, value)
	case uint64:
		set(to, C.PIRN_COMPONENT_U64, value)
	case float32:
		set(to, C.PIRN_COMPONENT_F32, value)
	case float64:
		set(to, C.PIRN_COMPONENT_F64, value)
	case Char:
		set(to, C.PIRN_COMPONENT_CHAR, value)
	case string:
		set(to, C.PIRN_COMPONENT_STRING,
			C.pirn_component_string_t{data: a.text(value), len: C.size_t(len(value))})
	case Enum:
		set(to, C.PIRN_COMPONENT_ENUM, a.text(string(value)))
	case List:
		return a.list(to, C.PIRN_COMPONENT_LIST, value)
	case Tuple:
		return a.list(to, C.PIRN_COMPONENT_TUPLE, value)
	case Record:
		return a.record(to, value)
	case Variant:
		made := C.pirn_component_case_t{name: a.text(value.Case)}
		made.payload, err = a.payload(value.Payload)
		set(to, C.PIRN_COMPONENT_VARIANT, made)
	case Option:
		var made *cValue
		made, err = a.payload(value.Value)
		set(to, C.PIRN_COMPONENT_OPTION, made)
	case Result:
		var made C.pirn_component_result_t
		if value.IsError {
			made.is_error = 1
		}
		made.payload, err = a.payload(value.Payload)
		set(to, C.PIRN_COMPONENT_RESULT, made)
	case Flags:
		first := (**C.char)(a.block(len(value), unsafe.Sizeof(uintptr(0))))
		for at, name := range value {
			unsafe.Slice(first, len(value))[at] = a.text(name)
		}
		set(to, C.PIRN_COMPONENT_FLAGS,
			C.pirn_component_flags_t{names: first, count: C.size_t(len(value))})
	case Own:
		set(to, C.PIRN_COMPONENT_OWN, Resource(value))
	case Borrow:
		set(to, C.PIRN_COMPONENT_BORROW, Resource(value))
	default:
		err = fmt.Errorf("a value of Go's type %T has no type of the component model", value)
	}
	return err
}

func (a *arena) list(to *cValue, kind C.pirn_component_kind_t, values []any) error {
	first, err := a.values(values)
	set(to, kind, C.pirn_component_list_t{values: first, count: C.size_t(len(values))})
	return err
}

func (a *arena) record(to *cValue, record Record) error {
	var field C.pirn_component_field_t
	first := (*C.pirn_component_field_t)(a.block(len(record), unsafe.Sizeof(field)))
	fields := unsafe.Slice(first, len(record))
	for at := range record {
		fields[at].name = a.text(record[at].Name)
		if err := a.put(&fields[at].value, record[at].Value); err != nil {
			return err
		}
	}
	set(to, C.PIRN_COMPONENT_RECORD,
		C.pirn_component_record_t{fields: first, count: C.size_t(len(record))})
	return nil
}

// goValues copies an array of C.
func goValues(first *cValue, count C.size_t) []any {
	made := make([]any, count)
	for at := range made {
		made[at] = goValue(&unsafe.Slice(first, count)[at])
	}
	return made
}

// goValue copies a value of the library. It is nil for NULL.
func goValue(value *cValue) any {
	if value == nil {
		return nil
	}
	switch value.kind {
	case C.PIRN_COMPONENT_BOOL:
		return get[uint8](value) != 0
	case C.PIRN_COMPONENT_S8:
		return get[int8](value)
	case C.PIRN_COMPONENT_U8:
		return get[uint8](value)
	case C.PIRN_COMPONENT_S16:
		return get[int16](value)
	case C.PIRN_COMPONENT_U16:
		return get[uint16](value)
	case C.PIRN_COMPONENT_S32:
		return get[int32](value)
	case C.PIRN_COMPONENT_U32:
		return get[uint32](value)
	case C.PIRN_COMPONENT_S64:
		return get[int64](value)
	case C.PIRN_COMPONENT_U64:
		return get[uint64](value)
	case C.PIRN_COMPONENT_F32:
		return get[float32](value)
	case C.PIRN_COMPONENT_F64:
		return get[float64](value)
	case C.PIRN_COMPONENT_CHAR:
		return get[Char](value)
	case C.PIRN_COMPONENT_STRING:
		text := get[C.pirn_component_string_t](value)
		return C.GoStringN(text.data, C.int(text.len))
	case C.PIRN_COMPONENT_ENUM:
		return Enum(C.GoString(get[*C.char](value)))
	case C.PIRN_COMPONENT_LIST:
		list := get[C.pirn_component_list_t](value)
		return List(goValues(list.values, list.count))
	case C.PIRN_COMPONENT_TUPLE:
		list := get[C.pirn_component_list_t](value)
		return Tuple(goValues(list.values, list.count))
	case C.PIRN_COMPONENT_RECORD:
		record := get[C.pirn_component_record_t](value)
		made := make(Record, record.count)
		for at := range made {
			field := &unsafe.Slice(record.fields, record.count)[at]
			made[at] = Field{C.GoString(field.name), goValue(&field.value)}
		}
		return made
	case C.PIRN_COMPONENT_VARIANT:
		variant := get[C.pirn_component_case_t](value)
		return Variant{C.GoString(variant.name), goValue(variant.payload)}
	case C.PIRN_COMPONENT_OPTION:
		return Option{goValue(get[*cValue](value))}
	case C.PIRN_COMPONENT_RESULT:
		result := get[C.pirn_component_result_t](value)
		return Result{result.is_error != 0, goValue(result.payload)}
	case C.PIRN_COMPONENT_FLAGS:
		flags := get[C.pirn_component_flags_t](value)
		made := make(Flags, flags.count)
		for at := range made {
			made[at] = C.GoString(unsafe.Slice(flags.names, flags.count)[at])
		}
		return made
	case C.PIRN_COMPONENT_OWN:
		return Own(get[Resource](value))
	default:
		return Borrow(get[Resource](value))
	}
}
