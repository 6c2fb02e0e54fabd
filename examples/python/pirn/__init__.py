"""pirn for Python, by ctypes: the handles of pirn.h as context managers.

The library is the file that PIRN_LIBRARY names, or the one that the loader finds. Errors are
exceptions of type Error, with the guest's backtrace. An exception of a host function in Python ends
the guest's call, and is the cause of the Error that the caller gets.

A handle is freed at the end of its `with` block, by `close`, or with its object. Threads may use
the package as pirn.h says: the interpreter's lock is free while a guest runs.
"""

import ctypes
import itertools
import os
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t
from ctypes import c_uint32, c_uint64, c_void_p

I32, I64, F32, F64 = range(4)
_LETTERS = {"i": I32, "I": I64, "f": F32, "F": F64}
_ABI = 2

KINDS = {
    1: "argument", 2: "open", 3: "link", 4: "region", 5: "full", 6: "trap", 7: "exception",
    8: "exit", 9: "host", 10: "panic", 11: "killed", 12: "deadline", 13: "cpu budget",
    14: "state", 15: "busy", 16: "snapshot", 17: "system", 18: "poisoned", 19: "abi",
}


class _Content(ctypes.Union):
    _fields_ = [
        ("i32", c_int32), ("i64", c_int64), ("f32", ctypes.c_float), ("f64", ctypes.c_double),
        ("v128", ctypes.c_uint8 * 16), ("reference", c_uint64),
    ]


class _Value(ctypes.Structure):
    _fields_ = [("kind", c_uint32), ("of", _Content)]


class _Frame(ctypes.Structure):
    _fields_ = [
        ("func_index", c_uint32), ("wasm_offset", c_int64),
        ("func_name", c_char_p), ("module_name", c_char_p),
    ]


class _Limits(ctypes.Structure):
    _fields_ = [("deadline_ns", c_uint64), ("cpu_ns", c_uint64), ("slice_ns", c_uint64)]


class _Step(ctypes.Structure):
    _fields_ = [
        ("kind", c_uint32), ("args_count", c_uint32), ("tag", c_uint64), ("result", c_uint64),
        ("args", c_uint64 * 17),
    ]


class _Option(ctypes.Structure):
    _fields_ = [("option", c_uint32), ("value", c_uint64)]


_HOST = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, POINTER(_Value), POINTER(_Value))
_FREE = ctypes.CFUNCTYPE(None, c_void_p)


def _declare(library, result, *names_and_types):
    for name, *types in names_and_types:
        function = getattr(library, "pirn_" + name)
        function.restype, function.argtypes = result, types


def _load():
    library = ctypes.CDLL(os.environ.get("PIRN_LIBRARY", "libpirn.so"))
    if not hasattr(library, f"pirn_abi_{_ABI}"):
        found = library.pirn_abi_version()
        raise ImportError(f"pirn library has ABI {found}, this package needs {_ABI}")

    def declare(result, *names_and_types):
        _declare(library, result, *names_and_types)

    handle, text, size = c_void_p, c_char_p, c_size_t
    out = POINTER(c_void_p)
    kinds, words = POINTER(c_uint32), POINTER(c_uint64)
    values, limits, step = POINTER(_Value), POINTER(_Limits), POINTER(_Step)
    # An error, or None.
    declare(
        handle,
        ("module_open", text, out), ("module_from_bytes", text, size, out),
        ("module_to_bytes", handle, out), ("region_new", POINTER(_Option), size, out),
        ("linker_func", handle, text, text, kinds, size, kinds, size, _HOST, handle, _FREE),
        ("linker_ask", handle, text, text, kinds, size, kinds, size, c_uint64),
        ("linker_wasi", handle), ("region_prepare", handle, handle, handle, out),
        ("prepared_func", handle, text, out), ("capture_bytes", handle, out),
        ("instance_new", handle, handle, handle, c_uint64, out),
        ("instance_call", handle, handle, limits, values, size, values, size),
        ("instance_start", handle, handle, limits, words, step),
        ("instance_resume", handle, handle, limits, step),
        ("instance_answer", handle, handle, limits, c_uint64, step),
        ("instance_cancel", handle), ("instance_kill_switch", handle, out),
        ("instance_memory_read", handle, text, c_uint64, handle, size),
        ("instance_memory_write", handle, text, c_uint64, text, size),
        ("caller_memory_read", handle, text, c_uint64, handle, size),
        ("caller_memory_write", handle, text, c_uint64, text, size),
        ("instance_snapshot", handle, POINTER(text), size, out),
        ("func_type", handle, kinds, size, POINTER(size), POINTER(size)),
        ("kill_switch_kill", handle, kinds), ("error_new", text, c_uint64),
    )
    # The contexts of WASI preview 1 and of WASI 0.2.
    for wasi in ("wasi", "wasi2"):
        declare(
            handle,
            (wasi + "_new",), (wasi + "_arg", handle, text), (wasi + "_env", handle, text, text),
            (wasi + "_inherit_stdio", handle), (wasi + "_stdin_bytes", handle, text, size),
            (wasi + "_capture", handle, c_uint32, size, out),
            (wasi + "_preopen_dir", handle, text, text, c_int32),
        )
    declare(handle, ("linker_new",), ("bytes_data", handle))
    declare(text, ("error_message", handle), ("error_report", handle))
    declare(c_uint32, ("error_kind", handle), ("error_trap_code", handle),
            ("error_exit_code", handle))
    declare(c_uint64, ("error_user", handle))
    declare(size, ("error_frame_count", handle), ("bytes_len", handle))
    declare(c_int32, ("error_frame", handle, size, POINTER(_Frame)),
            ("kill_switch_is_running", handle))
    for name in ("error", "module", "region", "linker", "prepared", "func", "wasi", "wasi2",
                 "capture", "bytes", "instance", "kill_switch"):
        declare(None, (name + "_delete", handle))
    return library


_lib = _load()

# What the library holds pointers to, by number: host functions, and exceptions on their way.
_held = {}
_numbers = itertools.count(1)


def _hold(value):
    number = next(_numbers)
    _held[number] = value
    return number


@_FREE
def _release(number):
    _held.pop(number, None)


class Frame:
    """A WebAssembly function in a backtrace."""

    def __init__(self, frame):
        text = lambda value: value and value.decode()
        self.func_index, self.wasm_offset = frame.func_index, frame.wasm_offset
        self.func_name, self.module_name = text(frame.func_name), text(frame.module_name)

    def __repr__(self):
        name = self.func_name or f"wasm[{self.func_index}]"
        return f"{self.module_name}!{name}" if self.module_name else name


class Error(Exception):
    """Why a function failed: `kind`, `trap_code`, `exit_code`, and `frames`, innermost first."""

    def __init__(self, error):
        super().__init__(_lib.pirn_error_message(error).decode())
        self.kind = KINDS[_lib.pirn_error_kind(error)]
        self.report = _lib.pirn_error_report(error).decode()
        self.trap_code = _lib.pirn_error_trap_code(error)
        self.exit_code = _lib.pirn_error_exit_code(error)
        self.frames, frame = [], _Frame()
        for at in range(_lib.pirn_error_frame_count(error)):
            _lib.pirn_error_frame(error, at, byref(frame))
            self.frames.append(Frame(frame))


def _check(error):
    if error is None:
        return
    made = Error(error)
    cause = _held.pop(_lib.pirn_error_user(error), None)
    _lib.pirn_error_delete(error)
    raise made from cause


def _failed(error):
    """The error that a host function returns for an exception: none may leave the function."""
    text = f"{type(error).__name__}: {error}".replace("\0", "?")
    return _lib.pirn_error_new(text.encode(errors="replace"), _hold(error))


class _Handle:
    _kind = None

    def __init__(self, handle):
        self._handle = handle

    @classmethod
    def _made(cls, function, *arguments):
        handle = c_void_p()
        _check(function(*arguments, byref(handle)))
        return handle.value

    @property
    def handle(self):
        if self._handle is None:
            raise ValueError(f"{self._kind} is closed")
        return self._handle

    def _taken(self):
        handle, self._handle = self.handle, None
        return handle

    def close(self):
        if self._handle is not None:
            handle, self._handle = self._handle, None
            getattr(_lib, f"pirn_{self._kind}_delete")(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        # The library may be gone at the end of the interpreter.
        if getattr(self, "_handle", None) is not None and _lib is not None:
            self.close()


def _bytes(handle):
    data = ctypes.string_at(_lib.pirn_bytes_data(handle), _lib.pirn_bytes_len(handle))
    _lib.pirn_bytes_delete(handle)
    return data


class Module(_Handle):
    _kind = "module"

    @classmethod
    def open(cls, path):
        return cls(cls._made(_lib.pirn_module_open, os.fsencode(path)))

    @classmethod
    def from_bytes(cls, data):
        return cls(cls._made(_lib.pirn_module_from_bytes, data, len(data)))

    def to_bytes(self):
        return _bytes(self._made(_lib.pirn_module_to_bytes, self.handle))


class Region(_Handle):
    _kind = "region"
    _OPTIONS = ("slots", "memories", "memory_bytes_max", "tables", "table_elements", "stack_bytes",
                "instance_bytes", "host_bytes_max", "nested_calls_max", "reset")

    def __init__(self, **options):
        made = [_Option(self._OPTIONS.index(name) + 1, value) for name, value in options.items()]
        array = (_Option * len(made))(*made)
        super().__init__(self._made(_lib.pirn_region_new, array, len(made)))

    def prepare(self, module, linker):
        made = self._made(_lib.pirn_region_prepare, self.handle, module.handle, linker.handle)
        return Prepared(made)


def _kinds(letters):
    return (c_uint32 * len(letters))(*(_LETTERS[letter] for letter in letters))


_FIELDS = ("i32", "i64", "f32", "f64", "v128", "reference", "reference", "reference", "reference")


def _get(value):
    field = getattr(value.of, _FIELDS[value.kind])
    return bytes(field) if value.kind == 4 else field


def _set(value, kind, content):
    value.kind = kind
    if kind == 4:
        content = (ctypes.c_uint8 * 16)(*content)
    setattr(value.of, _FIELDS[kind], content)


class Caller:
    """A host function's access to the guest's memory. Valid until the function returns."""

    def __init__(self, handle):
        self._caller = handle

    def read(self, address, size):
        buffer = ctypes.create_string_buffer(size)
        _check(_lib.pirn_caller_memory_read(self._caller, None, address, buffer, size))
        return buffer.raw

    def write(self, address, data):
        _check(_lib.pirn_caller_memory_write(self._caller, None, address, data, len(data)))


class Linker(_Handle):
    """What guests can import. A signature has a letter for each value: i, I, f, F are i32, i64, f32
    and f64, as in "iI:f"."""

    _kind = "linker"

    def __init__(self):
        super().__init__(_lib.pirn_linker_new())

    def func(self, module, name, signature, function):
        params, results = signature.split(":")
        kinds = _kinds(results)

        def call(_env, caller, args, answers):
            try:
                values = [_get(args[at]) for at in range(len(params))]
                answer = function(Caller(caller), *values)
                if len(results) == 1:
                    answer = (answer,)
                for at in range(len(results)):
                    _set(answers[at], kinds[at], answer[at])
                return None
            except BaseException as error:
                return _failed(error)

        back = _HOST(call)
        _check(_lib.pirn_linker_func(
            self.handle, module.encode(), name.encode(), _kinds(params), len(params), kinds,
            len(results), back, _hold(back), _release))

    def ask(self, module, name, signature, tag):
        params, results = map(_kinds, signature.split(":"))
        _check(_lib.pirn_linker_ask(self.handle, module.encode(), name.encode(), params,
                                    len(params), results, len(results), tag))

    def wasi(self):
        _check(_lib.pirn_linker_wasi(self.handle))


class Prepared(_Handle):
    _kind = "prepared"

    def func(self, name):
        return Func(self._made(_lib.pirn_prepared_func, self.handle, name.encode()))

    def instantiate(self, wasi=None):
        context = wasi._taken() if wasi else None
        made = self._made(_lib.pirn_instance_new, self.handle, None, context, 2**64 - 1)
        return Instance(made)


class Func(_Handle):
    _kind = "func"

    def __init__(self, handle):
        super().__init__(handle)
        params, results = c_size_t(), c_size_t()
        _check(_lib.pirn_func_type(handle, None, 0, byref(params), byref(results)))
        kinds = (c_uint32 * (params.value + results.value))()
        _check(_lib.pirn_func_type(handle, kinds, len(kinds), None, None))
        self.params, self.results = kinds[:params.value], kinds[params.value:]


class Capture(_Handle):
    _kind = "capture"

    def bytes(self):
        return _bytes(self._made(_lib.pirn_capture_bytes, self.handle))


class Wasi(_Handle):
    """What WASI gives a guest: preview 1 here, WASI 0.2 in the subclass of `component`."""

    _kind = "wasi"

    def __init__(self, *arguments, env=()):
        super().__init__(self._function("new")())
        for argument in arguments:
            self._change("arg", argument.encode())
        for name, value in dict(env or ()).items():
            self._change("env", name.encode(), value.encode())

    @classmethod
    def _function(cls, name):
        return getattr(_lib, f"pirn_{cls._kind}_{name}")

    def _change(self, name, *arguments):
        _check(self._function(name)(self.handle, *arguments))

    def inherit_stdio(self):
        self._change("inherit_stdio")

    def stdin(self, data):
        self._change("stdin_bytes", data, len(data))

    def capture(self, stream=1, bytes_max=1 << 20):
        return Capture(self._made(self._function("capture"), self.handle, stream, bytes_max))

    def preopen(self, host, guest, read_only=False):
        self._change("preopen_dir", os.fsencode(host), guest.encode(), read_only)


class KillSwitch(_Handle):
    _kind = "kill_switch"

    def kill(self):
        _check(_lib.pirn_kill_switch_kill(self.handle, None))

    def is_running(self):
        return bool(_lib.pirn_kill_switch_is_running(self.handle))


RETURNED, ASKED, PREEMPTED = range(3)


class Step:
    """The progress of a call: `kind`, and `result`, or `tag` and `args` of a question. Numbers are
    unsigned words."""

    def __init__(self, step):
        self.kind, self.tag, self.result = step.kind, step.tag, step.result
        self.args = list(step.args[:step.args_count])


def _limits(deadline, slice_):
    return _Limits(int((deadline or 0) * 1e9), 0, int((slice_ or 0) * 1e9))


class Instance(_Handle):
    """A guest in its own slot. `deadline` and `slice` are seconds."""

    _kind = "instance"

    def call(self, func, *arguments, deadline=None):
        if len(arguments) != len(func.params):
            raise TypeError(f"function takes {len(func.params)} values, {len(arguments)} given")
        args = (_Value * len(arguments))()
        for value, kind, content in zip(args, func.params, arguments):
            _set(value, kind, content)
        results = (_Value * len(func.results))()
        limits = _limits(deadline, None)
        _check(_lib.pirn_instance_call(self.handle, func.handle, byref(limits), args, len(args),
                                       results, len(results)))
        made = [_get(result) for result in results]
        return made[0] if len(made) == 1 else tuple(made) or None

    def start(self, func, *words, slice=None):
        if len(words) != len(func.params):
            raise TypeError(f"function takes {len(func.params)} values, {len(words)} given")
        args, step, limits = (c_uint64 * len(words))(*words), _Step(), _limits(None, slice)
        _check(_lib.pirn_instance_start(self.handle, func.handle, byref(limits), args, byref(step)))
        return Step(step)

    def resume(self, func, slice=None):
        step, limits = _Step(), _limits(None, slice)
        _check(_lib.pirn_instance_resume(self.handle, func.handle, byref(limits), byref(step)))
        return Step(step)

    def answer(self, func, word, slice=None):
        step, limits = _Step(), _limits(None, slice)
        error = _lib.pirn_instance_answer(
            self.handle, func.handle, byref(limits), word, byref(step)
        )
        _check(error)
        return Step(step)

    def cancel(self):
        _check(_lib.pirn_instance_cancel(self.handle))

    def read(self, address, size, memory=None):
        buffer = ctypes.create_string_buffer(size)
        name = memory and memory.encode()
        _check(_lib.pirn_instance_memory_read(self.handle, name, address, buffer, size))
        return buffer.raw

    def write(self, address, data, memory=None):
        name = memory and memory.encode()
        _check(_lib.pirn_instance_memory_write(self.handle, name, address, data, len(data)))

    def kill_switch(self):
        return KillSwitch(self._made(_lib.pirn_instance_kill_switch, self.handle))

    def snapshot(self):
        """Ends the instance, and makes a module of its state."""
        return Module(self._made(_lib.pirn_instance_snapshot, self._taken(), None, 0))
