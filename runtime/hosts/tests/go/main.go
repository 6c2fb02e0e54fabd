// Runs guests on many threads of a Go program. Other goroutines cause the same signals for Go:
// SIGSEGV for nil pointers, SIGURG for preemption.
//
//	hosts run        installs Go's handlers first, then the runtime's
//	hosts notify     also notifies a channel of the signals
//	hosts ignore     also ignores SIGURG
//	hosts fault      causes a fault in C, on a thread that runs guests
//
// ../c/go.c loads this program as a library after the runtime has installed its handlers.
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
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const threads = 6

// rounds returns how often guests perform every action.
func rounds() int {
	rounds, err := strconv.Atoi(os.Getenv("PIRN_ROUNDS"))
	if err != nil {
		panic(err)
	}
	return rounds
}

// The host function of a guest calls goBack: Go code runs with the guest's frames on the stack.
//
//export goBack
func goBack(_ unsafe.Pointer, n C.int32_t) C.int32_t {
	nilPointer()
	keep(make([]byte, 1<<12))
	runtime.Gosched()
	return 3 * n
}

var nowhere *[4]int

// nilPointer reads through a nil pointer, and recovers from the panic that Go makes of SIGSEGV.
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

// guests makes guests perform every action, `rounds` times.
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

// tight waits for a flag in a loop that Go can preempt only by a signal.
func tight(done *atomic.Bool) {
	for !done.Load() {
	}
}

// others does other work of a Go program until `done` is set.
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

// deep recurses, so that the stack must grow.
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
		go func() { // on any thread, and possibly another one after each call
			defer mine.Done()
			guests(rounds())
		}()
	}
	mine.Wait()
	// On locked threads, which end with their goroutines.
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

// preempt returns only if Go can interrupt every thread.
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

// ../c/go.c calls goRun after it has loaded this program as a library.
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
	// Go drops a signal if the channel is full, so SIGSEGV has a channel without other signals.
	faults := make(chan os.Signal, 1)
	switch mode := os.Args[1]; mode {
	case "run":
	case "notify":
		signal.Notify(told, syscall.SIGURG, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL)
		signal.Notify(faults, syscall.SIGSEGV)
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
	if os.Args[1] != "ignore" { // without the signal, Go itself cannot preempt
		preempt()
	}
	if os.Args[1] == "notify" {
		// The channels are still notified.
		syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		<-faults
		<-told
	}
	fmt.Println("all guests did as they must")
}
