package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Rule 10: a line has a limit, and the record has one.
func TestRecord(t *testing.T) {
	c := Config{State: t.TempDir()}
	long := strings.Repeat("\x01", 1000)
	r := Record{Container: "c1", Result: Partial}
	for i := range 200 {
		r.Patched = append(r.Patched, fmt.Sprint("/lib/", i))
		r.Left = append(r.Left, leftover{"/" + long, long})
	}
	line, err := r.line()
	if err != nil || len(line) > maxLine || line[len(line)-1] != '\n' {
		t.Fatalf("%d bytes, %v", len(line), err)
	}
	var got Record
	if err := json.Unmarshal(line, &got); err != nil || got.Omitted+len(got.Patched)+len(got.Left) != 400 || len(got.Patched) == 0 || got.Container != "c1" {
		t.Errorf("got %+v, %v", got, err)
	}
	few := Record{Patched: r.Patched}
	if line, err = few.line(); err != nil || json.Unmarshal(line, &few) != nil || len(few.Patched) != 200 || few.Omitted != 0 {
		t.Errorf("got %+v, %v", few, err)
	}
	if err := os.WriteFile(c.RecordPath(), bytes.Repeat([]byte("x"), maxRecord+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.add(Record{Container: "c2"}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(c.RecordPath())
	if err != nil || bytes.Count(text, []byte("\n")) != 2 {
		t.Errorf("got %q, %v, want two lines", text, err)
	}
	if old, err := os.ReadFile(c.RecordPath() + oldSuffix); err != nil || len(old) != maxRecord+1 {
		t.Errorf("the old record: %d bytes, %v", len(old), err)
	}
}

// What is left, in one line.
func TestWhy(t *testing.T) {
	one, two := leftover{"/a", "first"}, leftover{"/b", "second"}
	for want, r := range map[string]Record{
		"":                   {},
		"reason":             {Reason: "reason", Left: []leftover{one}},
		"/a: first (1 of 1)": {Left: []leftover{one}},
		"/a: first (1 of 2)": {Left: []leftover{one, two}},
		"no path (1 of 1)":   {Left: []leftover{{Reason: "no path"}}},
	} {
		if got := r.why(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
