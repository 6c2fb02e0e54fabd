// A reactor that works before its first request: init makes a list of prices. Each call of handle
// writes one JSON document about an item to stdout, and counts the requests of this instance.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

const items = 10_000

var (
	priceCents = make(map[string]int, items)
	requests   int
)

func init() {
	for i := 0; i < items; i++ {
		priceCents[name(i)] = 100 + i*i%9973
	}
}

func name(i int) string { return fmt.Sprintf("item-%d", i) }

//go:wasmexport handle
func handle(item int32) int32 {
	requests++
	cents, known := priceCents[name(int(item))]
	answer, err := json.Marshal(map[string]any{
		"item": item, "known": known, "cents": cents, "requests": requests,
	})
	if err != nil {
		return 1
	}
	if _, err := os.Stdout.Write(append(answer, '\n')); err != nil {
		return 2
	}
	return 0
}

// hello is the shortest answer.
//
//go:wasmexport hello
func hello() { os.Stdout.WriteString("hello from a slot\n") }

func main() {}
