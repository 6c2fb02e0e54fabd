// Embeds a guest in Go, and runs a WASI program.
//
//	cargo run --release --bin aotc -- examples/c/guest.wat -o guest.so
//	cargo run --release --bin aotc -- examples/guests/hello.wasm -o hello.so
//	cd examples/go
//	CGO_LDFLAGS=-L../../target/release go build -o embed .
//	LD_LIBRARY_PATH=../../target/release ./embed ../../guest.so ../../hello.so
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"pirn.example/embed/pirn"
)

var errTooLarge = errors.New("square of a number above 46340")

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
	return value
}

func newLinker() *pirn.Linker {
	one, two := []pirn.Kind{pirn.I32}, []pirn.Kind{pirn.I32, pirn.I32}
	linker := pirn.NewLinker()
	log := func(caller pirn.Caller, args []uint64) (uint64, error) {
		text, err := caller.Read(args[0], args[1])
		fmt.Printf("guest says: %s\n", text)
		return 0, err
	}
	must(0, linker.Func("host", "log", two, nil, log))
	square := func(_ pirn.Caller, args []uint64) (uint64, error) {
		if args[0] > 46340 {
			return 0, errTooLarge
		}
		return args[0] * args[0], nil
	}
	must(0, linker.Func("host", "square", one, one, square))
	must(0, linker.Ask("host", "fetch", one, []pirn.Kind{pirn.I64}, 1))
	return linker
}

func guest(path string) {
	module := must(pirn.Open(path))
	region := must(pirn.NewRegion(4, 16<<20))
	linker := newLinker()
	prepared := must(region.Prepare(module, linker))
	linker.Close()
	one, two := []pirn.Kind{pirn.I32}, []pirn.Kind{pirn.I32, pirn.I32}
	greet := must(prepared.Func("greet", nil, nil))
	add := must(prepared.Func("add", two, one))
	average := must(prepared.Func("average", two, one))
	twice := must(prepared.Func("twice", one, one))
	forever := must(prepared.Func("forever", nil, nil))
	sum := must(prepared.Func("sum_of_two", one, []pirn.Kind{pirn.I64}))
	count := must(prepared.Func("count", nil, one))

	instance := must(prepared.Instantiate(nil))
	must(instance.Call(greet, 0))
	fmt.Println("add:", must(instance.Call(add, 0, 40, 2)))
	text := make([]byte, 5)
	must(0, instance.Read(16, text))
	fmt.Printf("memory: %s\n", text)

	var failed *pirn.Error
	if _, err := instance.Call(average, 0, 1, 0); errors.As(err, &failed) {
		fmt.Printf("trap %d:", failed.TrapCode)
		for _, frame := range failed.Frames {
			fmt.Printf(" %s!%s", frame.Module, frame.Func)
		}
		fmt.Println()
	}
	_, err := instance.Call(twice, 0, 50000)
	fmt.Println("host error:", errors.Is(err, errTooLarge))
	if _, err := instance.Call(forever, 2*time.Millisecond); errors.As(err, &failed) {
		fmt.Println("deadline:", failed.Kind == pirn.ErrorDeadline)
	}
	_, err = prepared.Func("add", one, one)
	fmt.Println("link error:", errors.As(err, &failed) && failed.Kind == pirn.ErrorLink)

	step := must(instance.Start(sum, 10))
	for step.Asked {
		step = must(instance.Answer(sum, step.Args[0]*100))
	}
	fmt.Println("returned", step.Result)

	killSwitch := must(instance.KillSwitch())
	go func() {
		for !killSwitch.IsRunning() {
			runtime.Gosched()
		}
		must(0, killSwitch.Kill())
	}()
	if _, err := instance.Call(forever, 0); errors.As(err, &failed) {
		fmt.Println("killed:", failed.Kind == pirn.ErrorKilled)
	}
	instance.Close()

	warm := must(prepared.Instantiate(nil))
	must(warm.Call(count, 0))
	snapshot := must(warm.Snapshot())
	reopened := must(pirn.FromBytes(must(snapshot.Bytes())))
	linker = newLinker()
	again := must(region.Prepare(reopened, linker))
	linker.Close()
	next := must(again.Instantiate(nil))
	fmt.Println("warm:", must(next.Call(must(again.Func("count", nil, one)), 0)))
	next.Close()
}

func program(path string) {
	linker := pirn.NewLinker()
	must(0, linker.Wasi())
	region := must(pirn.NewRegion(1, 16<<20))
	prepared := must(region.Prepare(must(pirn.Open(path)), linker))
	instance := must(prepared.Instantiate(must(pirn.NewWasi("hello"))))
	_, err := instance.Call(must(prepared.Func("_start", nil, nil)), 0)
	var failed *pirn.Error
	if err != nil && !(errors.As(err, &failed) && failed.Kind == pirn.ErrorExit) {
		must(0, err)
	}
	instance.Close()
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: embed GUEST.so PROGRAM.so")
		os.Exit(2)
	}
	guest(os.Args[1])
	program(os.Args[2])
}
