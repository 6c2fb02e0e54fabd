"""Components: the functions of pirn.h whose names begin with pirn_component and pirn_wasi2.

A Value has a kind, which is the name of its type in WIT, and a content:

    bool, s8 ... u64, f32, f64      a bool, an int, a float
    char, string, enum              a str
    list, tuple                     a list of values
    record                          a dict of values by the name of the field, in order
    variant                         the name of the case, and its payload or None
    option                          a value or None
    result                          whether it is an error, and its payload or None
    flags                           a list of names
    own, borrow                     the three numbers of pirn_component_resource_t
"""

import collections
import ctypes
from ctypes import POINTER, byref, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p

from . import Wasi as _Wasi
from . import _check, _declare, _failed, _FREE, _Handle, _hold, _lib, _release

KINDS = ("bool", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f32", "f64", "char",
         "string", "list", "record", "tuple", "variant", "enum", "option", "result", "flags",
         "own", "borrow")
_NUMBERS = KINDS[1:11]

Value = collections.namedtuple("Value", "kind content")


class _Value(ctypes.Structure):
    pass


class _String(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("len", c_size_t)]


class _List(ctypes.Structure):
    _fields_ = [("values", POINTER(_Value)), ("count", c_size_t)]


class _Field(ctypes.Structure):
    pass


class _Record(ctypes.Structure):
    _fields_ = [("fields", POINTER(_Field)), ("count", c_size_t)]


class _Case(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("payload", POINTER(_Value))]


class _Result(ctypes.Structure):
    _fields_ = [("is_error", c_uint32), ("payload", POINTER(_Value))]


class _Flags(ctypes.Structure):
    _fields_ = [("names", POINTER(c_char_p)), ("count", c_size_t)]


class _Resource(ctypes.Structure):
    _fields_ = [("rep", c_uint32), ("type_index", c_uint32), ("owner", c_uint64)]


class _Of(ctypes.Union):
    _fields_ = [
        ("bool", ctypes.c_uint8), ("s8", ctypes.c_int8), ("u8", ctypes.c_uint8),
        ("s16", ctypes.c_int16), ("u16", ctypes.c_uint16), ("s32", ctypes.c_int32),
        ("u32", c_uint32), ("s64", ctypes.c_int64), ("u64", c_uint64), ("f32", ctypes.c_float),
        ("f64", ctypes.c_double), ("character", c_uint32), ("string", _String), ("list", _List),
        ("record", _Record), ("variant", _Case), ("enum", c_char_p), ("option", POINTER(_Value)),
        ("result", _Result), ("flags", _Flags), ("resource", _Resource),
    ]


_Value._fields_ = [("kind", c_uint32), ("of", _Of)]
_Field._fields_ = [("name", c_char_p), ("value", _Value)]
_HOST = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, POINTER(_Value), c_size_t)


def _declare_all():
    handle, text, out, values = c_void_p, c_char_p, POINTER(c_void_p), POINTER(_Value)
    _declare(
        _lib, handle,
        ("component_new", handle, out), ("component_linker_wasi", handle),
        ("component_linker_func", handle, text, text, _HOST, handle, _FREE),
        ("region_prepare_component", handle, handle, handle, out),
        ("component_prepared_func", handle, text, out),
        ("component_instance_new", handle, handle, handle, c_uint64, out),
        ("component_instance_call", handle, handle, c_uint64, values, c_size_t, out),
        ("component_instance_run", handle, c_uint64, POINTER(c_uint32)),
        ("component_caller_return", handle, values), ("component_linker_new",),
    )
    _declare(_lib, values, ("component_owned_value", handle))
    _declare(_lib, text, ("component_func_type", handle))
    for name in ("component", "component_linker", "component_prepared", "component_func",
                 "component_instance", "component_owned"):
        _declare(_lib, None, (name + "_delete", handle))


_declare_all()


def _to_c(value, keep):
    """The value for C. `keep` has what it points to."""
    kind, content = value
    made = _Value(kind=KINDS.index(kind))

    def pointer(payload):
        return None if payload is None else ctypes.pointer(_to_c(payload, keep))

    if kind in _NUMBERS or kind == "bool":
        setattr(made.of, kind, content)
    elif kind == "char":
        made.of.character = ord(content)
    elif kind == "string":
        data = content.encode()
        buffer = ctypes.create_string_buffer(data)
        keep.append(buffer)
        made.of.string = _String(ctypes.addressof(buffer), len(data))
    elif kind in ("list", "tuple"):
        array = (_Value * len(content))(*(_to_c(each, keep) for each in content))
        keep.append(array)
        made.of.list = _List(array, len(content))
    elif kind == "record":
        fields = [_Field(name.encode(), _to_c(each, keep)) for name, each in content.items()]
        array = (_Field * len(fields))(*fields)
        keep += [array, fields]
        made.of.record = _Record(array, len(fields))
    elif kind == "variant":
        made.of.variant = _Case(content[0].encode(), pointer(content[1]))
    elif kind == "enum":
        made.of.enum = content.encode()
    elif kind == "option":
        made.of.option = pointer(content)
    elif kind == "result":
        made.of.result = _Result(content[0], pointer(content[1]))
    elif kind == "flags":
        names = (c_char_p * len(content))(*(name.encode() for name in content))
        keep.append(names)
        made.of.flags = _Flags(names, len(content))
    else:
        made.of.resource = _Resource(*content)
    keep.append(made)
    return made


def _from_c(value):
    kind, of = KINDS[value.kind], value.of

    def payload(pointer):
        return _from_c(pointer[0]) if pointer else None

    if kind in _NUMBERS:
        content = getattr(of, kind)
    elif kind == "bool":
        content = of.bool != 0
    elif kind == "char":
        content = chr(of.character)
    elif kind == "string":
        content = ctypes.string_at(of.string.data, of.string.len).decode()
    elif kind in ("list", "tuple"):
        content = [_from_c(of.list.values[at]) for at in range(of.list.count)]
    elif kind == "record":
        fields = [of.record.fields[at] for at in range(of.record.count)]
        content = {field.name.decode(): _from_c(field.value) for field in fields}
    elif kind == "variant":
        content = of.variant.name.decode(), payload(of.variant.payload)
    elif kind == "enum":
        content = of.enum.decode()
    elif kind == "option":
        content = payload(of.option)
    elif kind == "result":
        content = bool(of.result.is_error), payload(of.result.payload)
    elif kind == "flags":
        content = [of.flags.names[at].decode() for at in range(of.flags.count)]
    else:
        content = of.resource.rep, of.resource.type_index, of.resource.owner
    return Value(kind, content)


class Component(_Handle):
    _kind = "component"

    def __init__(self, module):
        super().__init__(self._made(_lib.pirn_component_new, module.handle))


class Linker(_Handle):
    """What components can import. A host function gets values, and returns a value or None."""

    _kind = "component_linker"

    def __init__(self):
        super().__init__(_lib.pirn_component_linker_new())

    def func(self, interface, name, function):
        def call(_env, caller, args, count):
            try:
                result = function(*(_from_c(args[at]) for at in range(count)))
                if result is None:
                    return None
                keep = []
                made = _to_c(result, keep)
                return _lib.pirn_component_caller_return(caller, byref(made))
            except BaseException as error:
                return _failed(error)

        back = _HOST(call)
        _check(_lib.pirn_component_linker_func(
            self.handle, interface.encode(), name.encode(), back, _hold(back), _release))

    def wasi(self):
        _check(_lib.pirn_component_linker_wasi(self.handle))

    def prepare(self, region, component):
        return Prepared(self._made(_lib.pirn_region_prepare_component, region.handle,
                                   component.handle, self.handle))


class Func(_Handle):
    _kind = "component_func"

    @property
    def type(self):
        return _lib.pirn_component_func_type(self.handle).decode()


class Prepared(_Handle):
    _kind = "component_prepared"

    def func(self, name):
        return Func(self._made(_lib.pirn_component_prepared_func, self.handle, name.encode()))

    def instantiate(self, wasi=None):
        context = wasi and wasi._taken()
        made = self._made(_lib.pirn_component_instance_new, self.handle, None, context, 2**64 - 1)
        return Instance(made)


class Wasi(_Wasi):
    """What WASI 0.2 gives a component."""

    _kind = "wasi2"


class Instance(_Handle):
    _kind = "component_instance"

    def call(self, func, *args, deadline=0):
        """Calls a function with values, for at most `deadline` seconds if it is not 0."""
        keep = []
        array = (_Value * len(args))(*(_to_c(value, keep) for value in args))
        owned = self._made(_lib.pirn_component_instance_call, self.handle, func.handle,
                           int(deadline * 1e9), array, len(args))
        if owned is None:
            return None
        try:
            return _from_c(_lib.pirn_component_owned_value(owned)[0])
        finally:
            _lib.pirn_component_owned_delete(owned)

    def run(self, deadline=0):
        """Runs a command, and returns its exit code."""
        code = c_uint32()
        _check(_lib.pirn_component_instance_run(self.handle, int(deadline * 1e9), byref(code)))
        return code.value
