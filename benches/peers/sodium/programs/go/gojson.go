// JSON by Go's standard library: writes a list of records, and reads it again.
package main

import (
	"encoding/json"
	"fmt"
)

type record struct {
	Name   string            `json:"name"`
	Price  float64           `json:"price"`
	Count  int               `json:"count"`
	Tags   []string          `json:"tags"`
	Others map[string]string `json:"others,omitempty"`
}

var (
	records []record
	written int
	read    []record
)

func prepare() {
	state := numbers(7)
	for i := range 100 {
		one := record{Name: text(3, &state), Price: float64(state.below(100000)) / 64, Count: i}
		for range state.below(5) {
			one.Tags = append(one.Tags, words[state.below(len(words))])
		}
		if i%4 == 0 {
			one.Others = map[string]string{"a \"quote\"": text(2, &state), "ü": "ß\n"}
		}
		records = append(records, one)
	}
}

func pass() {
	bytes, err := json.Marshal(records)
	if err != nil {
		panic(err)
	}
	written, read = len(bytes), nil
	if err := json.Unmarshal(bytes, &read); err != nil {
		panic(err)
	}
}

func tell() {
	count := 0
	for _, one := range read {
		count += one.Count + len(one.Tags) + len(one.Others["ü"])
	}
	fmt.Println(written, "bytes,", len(read), "records,", count)
}
