// Runs guests on many threads of a Go program, while its other goroutines have Go handle the same signals:
// SIGSEGV for nil pointers, SIGURG for preemption.
//
//	hosts run        handlers of Go's first, then the runtime's
//	hosts notify     and then somebody is to be told of the signals
//	hosts ignore     and then SIGURG is ignored
//	hosts fault      a fault in C, on a thread that runs guests
//
// As a library it is loaded by ../c/go.c, when the runtime's handlers are there.
package main

/*
#include <stdint.h>
extern int32_t goBack(void *with, int32_t n);
typedef int32_t (*back)(void *, int32_t);
int32_t pirn_hosts_count(void);
void pirn_hosts_open(void);
void pirn_hosts_fault(void);
int32_t pirn_hosts_run(int32_t what, back back, void *with);
static int32_t run(int32_t what) { return pirn_hosts_run(what, goBack, 0); }
*/
import "C"

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	threads = 6
	rounds  = 6
)

// Called by the host function that a guest called: Go's code with the guest in the middle of its stack.
//
//export goBack
func goBack(_ unsafe.Pointer, n C.int32_t) C.int32_t {
	nilPointer()
	keep(make([]byte, 1<<12))
	runtime.Gosched()
	return 3 * n
}

var nowhere *[4]int

// Reads through a nil pointer, and recovers from the panic that Go makes of the signal.
func nilPointer() {
	defer func() {
		if err, ok := recover().(runtime.Error); !ok {
			fail("a nil pointer came to %v", err)
		}
	}()
	keep(nowhere[2])
	fail("a nil pointer was read through")
}

var kept atomic.Value

func keep[T any](value T) { kept.Store([1]any{value}) }

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

// Has guests do all they can, so many times.
func guests(rounds int) {
	for i := 0; i < rounds; i++ {
		for what := C.int32_t(0); what < C.pirn_hosts_count(); what++ {
			if C.run(what) != 0 {
				fail("guest %d", what)
			}
			nilPointer()
		}
	}
}

// Waits for a flag in a loop that Go cannot leave but by its signal.
func tight(done *atomic.Bool) {
	for !done.Load() {
	}
}

// What a Go program does besides, until it is done.
func others(done *atomic.Bool, all *sync.WaitGroup) {
	for _, busy := range []func(){
		nilPointer,
		func() { keep(make([]*int, 1<<10)) },
		func() { keep(deep(1000)); runtime.Gosched() },
		runtime.GC,
	} {
		all.Add(1)
		go func(busy func()) {
			defer all.Done()
			for !done.Load() {
				busy()
			}
		}(busy)
	}
}

// Needs a stack that grows.
func deep(n int) int {
	var frame [16]int
	if n == 0 {
		return frame[0]
	}
	return deep(n-1) + frame[n%16] + 1
}

func run() {
	var done atomic.Bool
	var all, mine sync.WaitGroup
	others(&done, &all)
	mine.Add(threads)
	for i := 0; i < threads; i++ {
		go func() { // on whatever thread there is, and another after each call
			defer mine.Done()
			guests(rounds)
		}()
	}
	mine.Wait()
	// On threads of their own, which end with them.
	mine.Add(threads)
	for i := 0; i < threads; i++ {
		go func() {
			defer mine.Done()
			runtime.LockOSThread()
			guests(1)
		}()
	}
	mine.Wait()
	done.Store(true)
	all.Wait()
}

// Go can interrupt each thread: this ends only if it can.
func preempt() {
	var done atomic.Bool
	var all sync.WaitGroup
	all.Add(threads)
	for i := 0; i < threads; i++ {
		go func() {
			defer all.Done()
			tight(&done)
		}()
	}
	for i := 0; i < 10; i++ {
		runtime.GC()
	}
	done.Store(true)
	all.Wait()
}

// What ../c/go.c calls.
//
//export goRun
func goRun() {
	nilPointer()
	run()
	preempt()
	fmt.Println("all guests did as they must")
}

func main() {
	nilPointer()
	C.pirn_hosts_open()
	told := make(chan os.Signal, 1)
	switch mode := os.Args[1]; mode {
	case "run":
	case "notify":
		signal.Notify(told, syscall.SIGURG, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL)
	case "ignore":
		guests(1)
		signal.Ignore(syscall.SIGURG)
	case "fault":
		runtime.LockOSThread()
		guests(1)
		C.pirn_hosts_fault()
	default:
		fail("no mode %s", mode)
	}
	run()
	if os.Args[1] != "ignore" { // without the signal Go cannot, either
		preempt()
	}
	if os.Args[1] == "notify" {
		// Whoever is to be told still is.
		select {
		case <-told:
		default:
		}
		syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		for <-told != syscall.SIGSEGV {
		}
	}
	fmt.Println("all guests did as they must")
}
