"""Calls a component by values in Python, and runs a command of WASI 0.2.

    cargo run --release --bin aotc -- examples/c/component.wat -o shop.so
    cargo run --release --bin aotc -- examples/guests/hello-p2.wasm -o hello-p2.so
    PIRN_LIBRARY=target/release/libpirn.so python3 examples/python/component.py shop.so hello-p2.so
"""

import sys

import pirn
from pirn import component
from pirn.component import Value

PRICES = {"pear": 25, "plum": 4}


def price(name):
    if name.content == "poison":
        raise ValueError("poison is not for sale")
    found = PRICES.get(name.content)
    return Value("option", None if found is None else Value("u32", found))


def item(name, count):
    return Value("record", {"name": Value("string", name), "count": Value("u32", count)})


def prepare(path, linker):
    # A component can have a memory for each of its core modules.
    region = pirn.Region(slots=1, memories=4)
    return linker.prepare(region, component.Component(pirn.Module.open(path)))


def shop(path):
    linker = component.Linker()
    linker.func("example:shop/prices", "price", price)
    prepared = prepare(path, linker)
    total = prepared.func("total")
    print(total.type)
    with prepared.instantiate() as instance:
        for name in ("plum", "stone"):
            is_error, payload = instance.call(
                total, Value("list", [item("pear", 3), item(name, 3)])
            ).content
            print("no price:" if is_error else "total:", payload.content)
        try:
            instance.call(total, Value("string", "pear"))
        except pirn.Error as error:
            print(error.kind, error, sep=":\n")
        try:
            instance.call(total, Value("list", [item("poison", 1)]))
        except pirn.Error as error:
            print(f"{error.kind}: {error.__cause__!r}")


def command(path):
    linker = component.Linker()
    linker.wasi()
    wasi = component.Wasi("hello")
    capture = wasi.capture()
    with prepare(path, linker).instantiate(wasi) as instance:
        print("exit code:", instance.run())
    print("captured:", capture.bytes())


if len(sys.argv) != 3:
    sys.exit("usage: component.py SHOP.so COMMAND.so")
shop(sys.argv[1])
command(sys.argv[2])
