// The Go tour: uses everything that a command gets from its host and prints what it finds.
//
// c/tour.c and rust/src/main.rs do the same: after the first line all three print equal bytes for
// equal input (fixtures/tour.expected.txt). README.md, "The tour", describes the output, its order
// and the reasons.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	data       = "/data"
	input      = data + "/input.txt"
	missing    = data + "/missing.txt"
	out        = data + "/out-go.txt"
	outPartial = data + "/out-go.partial"

	// Largest exit code that every WASI host returns unchanged.
	exitCodeMax = 125
)

// digest has the size, lines and hash of a byte stream: enough to distinguish two, short to print.
type digest struct {
	bytes, lines int
	fnv1a        uint64
}

func main() {
	code, err := exitCode()
	if err != nil {
		fmt.Fprintf(os.Stderr, "tour: %v\n", err)
		os.Exit(2)
	}
	w := bufio.NewWriter(os.Stdout)
	err = tour(w)
	if flushed := w.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "tour: %v\n", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "tour: exit %d\n", code)
	os.Exit(code)
}

func tour(w io.Writer) error {
	fmt.Fprintln(w, "language: Go")
	arguments := printArguments(w)
	greeting := printEnvironment(w)
	if err := printInput(w); err != nil {
		return err
	}
	read, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("cannot read stdin: %w", err)
	}
	stdin := digestOf(read)
	stdin.print(w, "stdin")
	if err := printDirectory(w); err != nil {
		return err
	}
	report := fmt.Sprintf("%s\narguments: %d\nstdin: %d lines, %d bytes\n", greeting, arguments, stdin.lines, stdin.bytes)
	if err := writeBack(w, []byte(report)); err != nil {
		return err
	}
	printClock(w)
	return nil
}

func printArguments(w io.Writer) int {
	// Omit os.Args[0], the runner's name for the program, which differs between runners.
	count := max(len(os.Args)-1, 0)
	fmt.Fprintf(w, "arguments: %d\n", count)
	for i := 1; i <= count; i++ {
		fmt.Fprintf(w, "  %d: %s\n", i, os.Args[i])
	}
	return count
}

func printEnvironment(w io.Writer) string {
	greeting, found := os.LookupEnv("PIRN_GREETING")
	if !found {
		greeting = "(none)"
	}
	fmt.Fprintf(w, "greeting: %s\n", greeting)

	variables := os.Environ()
	sort.Strings(variables)
	fmt.Fprintf(w, "environment: %d\n", len(variables))
	for _, variable := range variables {
		fmt.Fprintf(w, "  %s\n", variable)
	}
	return greeting
}

func printInput(w io.Writer) error {
	read, err := os.ReadFile(input)
	if err != nil {
		return err
	}
	digestOf(read).print(w, "file "+input)
	first, _, _ := bytes.Cut(read, []byte("\n"))
	fmt.Fprintf(w, "  first line: %s\n", first)
	about, err := os.Stat(input)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "  stat: %d bytes\n", about.Size())

	state := "there"
	if file, err := os.Open(missing); err == nil {
		file.Close()
	} else if errors.Is(err, fs.ErrNotExist) {
		state = "not found"
	} else {
		state = "other error"
	}
	fmt.Fprintf(w, "file %s: %s\n", missing, state)
	return nil
}

func printDirectory(w io.Writer) error {
	entries, err := os.ReadDir(data) // sorted by name
	if err != nil {
		return err
	}
	lines := []string{}
	for _, entry := range entries {
		// Skip the file that an earlier tour wrote here.
		if strings.HasPrefix(entry.Name(), "out-") {
			continue
		}
		about, err := os.Stat(data + "/" + entry.Name())
		if err != nil {
			return err
		}
		kind := fmt.Sprintf("%d bytes", about.Size())
		if about.IsDir() {
			kind = "directory"
		}
		lines = append(lines, fmt.Sprintf("  %s: %s\n", entry.Name(), kind))
	}
	fmt.Fprintf(w, "directory %s: %d entries\n%s", data, len(lines), strings.Join(lines, ""))
	return nil
}

// writeBack writes a temporary file and renames it, so that the old file is replaced atomically.
func writeBack(w io.Writer, report []byte) error {
	if err := os.WriteFile(outPartial, report, 0o644); err != nil {
		return err
	}
	if err := os.Rename(outPartial, out); err != nil {
		return err
	}
	again, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	state := "different"
	if bytes.Equal(again, report) {
		state = "the same"
	}
	digestOf(report).print(w, "written")
	fmt.Fprintf(w, "  read back: %s\n", state)
	return nil
}

func printClock(w io.Writer) {
	before := time.Now()
	time.Sleep(2 * time.Millisecond)
	took := "less than 1 ms"
	// Expect half of the requested time: some hosts count whole milliseconds.
	if time.Since(before) >= time.Millisecond {
		took = "its time"
	}
	fmt.Fprintf(w, "clock: a sleep of 2 ms took %s\n", took)
}

func exitCode() (int, error) {
	text, found := os.LookupEnv("PIRN_EXIT")
	if !found {
		return 0, nil
	}
	code, err := strconv.ParseUint(text, 10, 8)
	if err != nil || code > exitCodeMax || len(text) > 3 {
		return 0, fmt.Errorf("PIRN_EXIT is \"%s\"; give a number from 0 to %d", text, exitCodeMax)
	}
	return int(code), nil
}

func digestOf(read []byte) digest {
	hash := fnv.New64a()
	hash.Write(read)
	lines := bytes.Count(read, []byte("\n"))
	// A last line without a line feed counts too.
	if len(read) > 0 && read[len(read)-1] != '\n' {
		lines++
	}
	return digest{bytes: len(read), lines: lines, fnv1a: hash.Sum64()}
}

func (d digest) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%s: %d lines, %d bytes, fnv1a %016x\n", name, d.lines, d.bytes, d.fnv1a)
}
