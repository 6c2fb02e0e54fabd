// Go's maps and strings: counts the words of a text, and joins the most frequent ones.
package main

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

var (
	input  string
	counts map[string]int
	joined string
)

func prepare() {
	state := numbers(8)
	input = text(2000, &state)
	for i := range 500 {
		input += fmt.Sprintf("word%d ", state.below(i+1))
	}
}

func pass() {
	counts = map[string]int{}
	for _, word := range strings.Fields(input) {
		counts[strings.ToUpper(word)]++
	}
	all := make([]string, 0, len(counts))
	for word := range counts {
		all = append(all, word)
	}
	sort.Slice(all, func(a, b int) bool {
		if counts[all[a]] != counts[all[b]] {
			return counts[all[a]] > counts[all[b]]
		}
		return all[a] < all[b]
	})
	joined = strings.Join(all[:40], ",")
}

func tell() {
	fmt.Println(len(counts))
	for line := range slices.Chunk(strings.Split(joined, ","), 8) {
		fmt.Println(strings.Join(line, ","))
	}
}
