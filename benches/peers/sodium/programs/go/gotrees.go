// Go's collector and its sort: makes trees of random numbers, walks them, and sorts what was found.
package main

import (
	"fmt"
	"slices"
)

type tree struct {
	left, right *tree
	value       int
}

var (
	state  = numbers(10)
	sorted []int
)

func (t *tree) insert(value int) *tree {
	if t == nil {
		return &tree{value: value}
	}
	if value < t.value {
		t.left = t.left.insert(value)
	} else {
		t.right = t.right.insert(value)
	}
	return t
}

func (t *tree) walk(visit func(int)) {
	if t != nil {
		t.left.walk(visit)
		visit(t.value)
		t.right.walk(visit)
	}
}

func prepare() {}

func pass() {
	var root *tree
	for range 4000 {
		root = root.insert(state.below(1 << 20))
	}
	sorted = sorted[:0]
	root.walk(func(value int) { sorted = append(sorted, value*7919%1000003) })
	slices.Sort(sorted)
}

func tell() {
	fmt.Println(len(sorted), sorted[0], sorted[len(sorted)/2])
}
