// Runs a program, as main.c does. With an argument, which is a number of passes, prints the
// picoseconds of one pass by the program's own clock. Without one, runs two passes and prints their
// results.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	prepare()
	if len(os.Args) < 2 {
		for range 2 {
			pass()
			tell()
		}
		return
	}
	passes, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	start := time.Now()
	for range passes {
		pass()
	}
	fmt.Println(1000 * time.Since(start).Nanoseconds() / int64(passes))
}

// Pseudo-random numbers, equal in each run: the upper half of a linear congruential generator.
type numbers uint64

func (state *numbers) below(end int) int {
	*state = *state*6364136223846793005 + 1442695040888963407
	return int(uint32(*state>>32)) % end
}

var words = []string{
	"the", "of", "and", "to", "server", "request", "memory", "compiler", "instance", "answer",
	"between", "function", "table", "module", "quickly", "question", "international", "engine",
}

// Words of a small vocabulary with spaces between them.
func text(count int, state *numbers) string {
	all := ""
	for range count {
		all += words[state.below(len(words))] + " "
	}
	return all
}
