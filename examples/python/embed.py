"""Embeds a guest in Python, and runs a WASI program.

    cargo run --release --bin aotc -- examples/c/guest.wat -o guest.so
    cargo run --release --bin aotc -- examples/guests/hello.wasm -o hello.so
    PIRN_LIBRARY=target/release/libpirn.so python3 examples/python/embed.py guest.so hello.so
"""

import sys
import threading
import time

import pirn

TAG_FETCH = 1


def log(caller, address, size):
    print("guest says:", caller.read(address, size).decode())


def square(_caller, number):
    if number > 46340:
        raise OverflowError(f"square of {number}")
    return number * number


def linker():
    made = pirn.Linker()
    made.func("host", "log", "ii:", log)
    made.func("host", "square", "i:i", square)
    made.ask("host", "fetch", "i:I", TAG_FETCH)
    return made


def guest(path):
    region = pirn.Region(slots=4, memory_bytes_max=16 << 20)
    prepared = region.prepare(pirn.Module.open(path), linker())
    funcs = {name: prepared.func(name) for name in
             ("greet", "add", "swap", "average", "twice", "forever", "sum_of_two", "count")}
    with prepared.instantiate() as instance:
        instance.call(funcs["greet"])
        print("add:", instance.call(funcs["add"], 40, 2))
        print("swap:", instance.call(funcs["swap"], -5, 0.5))
        print("memory:", instance.read(16, 5))
        try:
            instance.call(funcs["average"], 1, 0)
        except pirn.Error as error:
            print("trap", error.trap_code, error.frames)
        try:
            instance.call(funcs["twice"], 50000)
        except pirn.Error as error:
            print("host error:", error.kind, repr(error.__cause__))
        try:
            instance.call(funcs["forever"], deadline=0.002)
        except pirn.Error as error:
            print("stopped:", error.kind)
        try:
            instance.call(funcs["add"], 1)
        except TypeError as error:
            print("type error:", error)

        step = instance.start(funcs["sum_of_two"], 10)
        while step.kind == pirn.ASKED:
            step = instance.answer(funcs["sum_of_two"], step.args[0] * 100)
        print("returned", step.result)

        with instance.kill_switch() as kill_switch:
            def kill():
                while not kill_switch.is_running():
                    time.sleep(0)
                kill_switch.kill()

            thread = threading.Thread(target=kill)
            thread.start()
            try:
                instance.call(funcs["forever"])
            except pirn.Error as error:
                print("stopped:", error.kind)
            thread.join()

    warm = prepared.instantiate()
    warm.call(funcs["count"])
    snapshot = pirn.Module.from_bytes(warm.snapshot().to_bytes())
    again = region.prepare(snapshot, linker())
    with again.instantiate() as instance:
        print("warm:", instance.call(again.func("count")))


def program(path):
    made = pirn.Linker()
    made.wasi()
    prepared = pirn.Region(slots=1).prepare(pirn.Module.open(path), made)
    wasi = pirn.Wasi("hello", env={"LANG": "C"})
    capture = wasi.capture()
    with prepared.instantiate(wasi) as instance:
        try:
            instance.call(prepared.func("_start"))
        except pirn.Error as error:
            if error.kind != "exit":
                raise
    print("captured:", capture.bytes())


if len(sys.argv) != 3:
    sys.exit("usage: embed.py GUEST.so PROGRAM.so")
guest(sys.argv[1])
program(sys.argv[2])
