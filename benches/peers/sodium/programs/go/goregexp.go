// Regular expressions by Go's standard library: finds addresses and dates in a text, and replaces
// them.
package main

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	address  = regexp.MustCompile(`([a-z0-9.]+)@([a-z0-9]+(?:\.[a-z]+)+)`)
	date     = regexp.MustCompile(`\b(\d{4})-(\d\d)-(\d\d)\b`)
	input    string
	found    int
	replaced string
)

func prepare() {
	state := numbers(9)
	var all strings.Builder
	for i := range 60 {
		all.WriteString(text(12, &state))
		fmt.Fprintf(&all, "user.%d@example.org %d-%02d-%02d\n", i, 1900+i, 1+i%12, 1+i%28)
	}
	input = all.String()
}

func pass() {
	found = len(address.FindAllStringSubmatchIndex(input, -1))
	replaced = date.ReplaceAllString(input, "$3.$2.$1")
}

func tell() {
	fmt.Println(found, len(replaced), strings.TrimSpace(replaced[len(replaced)-11:]))
}
