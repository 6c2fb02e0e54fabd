// Calls a component by values in Go, and runs a command of WASI 0.2.
//
//	cargo run --release --bin aotc -- examples/c/component.wat -o shop.so
//	cargo run --release --bin aotc -- examples/guests/hello-p2.wasm -o hello-p2.so
//	cd examples/go
//	CGO_LDFLAGS=-L../../target/release go build -o shop ./component
//	LD_LIBRARY_PATH=../../target/release ./shop ../../shop.so ../../hello-p2.so
package main

import (
	"errors"
	"fmt"
	"os"

	"pirn.example/embed/pirn"
)

var (
	prices    = map[string]uint32{"pear": 25, "plum": 4}
	errPoison = errors.New("poison is not for sale")
)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "component:", err)
		os.Exit(1)
	}
	return value
}

// price is the host function. It has an option of u32, or fails.
func price(args []any) (any, error) {
	name := args[0].(string)
	if name == "poison" {
		return nil, errPoison
	}
	if found, ok := prices[name]; ok {
		return pirn.Option{Value: found}, nil
	}
	return pirn.Option{}, nil
}

func item(name string, count uint32) pirn.Record {
	return pirn.Record{{Name: "name", Value: name}, {Name: "count", Value: count}}
}

func prepare(path string, linker *pirn.ComponentLinker) *pirn.ComponentPrepared {
	module := must(pirn.Open(path))
	defer module.Close()
	component := must(module.Component())
	defer component.Close()
	region := must(pirn.NewRegionWithMemories(1, 16<<20, 4))
	defer region.Close()
	return must(region.PrepareComponent(component, linker))
}

func shop(path string) {
	linker := pirn.NewComponentLinker()
	must(0, linker.Func("example:shop/prices", "price", price))
	prepared := prepare(path, linker)
	linker.Close()
	total := must(prepared.Func("total"))
	fmt.Println(total.Type())
	instance := must(prepared.Instantiate(nil))
	for _, name := range []string{"plum", "stone"} {
		items := pirn.List{item("pear", 3), item(name, 3)}
		result := must(instance.Call(total, 0, items)).(pirn.Result)
		if result.IsError {
			fmt.Println("no price:", result.Payload)
		} else {
			fmt.Println("total:", result.Payload)
		}
	}
	_, err := instance.Call(total, 0, "pear")
	fmt.Println(err)
	_, err = instance.Call(total, 0, 3)
	fmt.Println(err)
	_, err = instance.Call(total, 0, pirn.List{item("poison", 1)})
	fmt.Println("host error:", errors.Is(err, errPoison))
	instance.Close()
	total.Close()
	prepared.Close()
}

func command(path string) {
	linker := pirn.NewComponentLinker()
	must(0, linker.Wasi())
	prepared := prepare(path, linker)
	linker.Close()
	instance := must(prepared.Instantiate(must(pirn.NewComponentWasi("hello"))))
	fmt.Println("exit code:", must(instance.Run(0)))
	instance.Close()
	prepared.Close()
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: component SHOP.so COMMAND.so")
		os.Exit(2)
	}
	shop(os.Args[1])
	command(os.Args[2])
}
