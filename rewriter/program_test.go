package rewriter

import (
	"bytes"
	"os"
	"testing"
)

// TestInspect reads programs that are there wherever these tests run, and text.
func TestInspect(t *testing.T) {
	inspect := func(b []byte) *Program {
		t.Helper()
		p, err := Inspect(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if p := inspect(b); p.Skipped != "" || !p.Go || p.Static != (p.Interp == "") {
		t.Errorf("this test: got %+v, want a program made by Go", p)
	}
	if b, err = os.ReadFile("/bin/sh"); err != nil {
		t.Fatal(err)
	}
	if p := inspect(b); p.Skipped != "" || p.Go || p.Static || p.Interp == "" {
		t.Errorf("/bin/sh: got %+v, want a dynamic program", p)
	}
	if p := inspect([]byte("#!/bin/sh\n")); p.Skipped == "" || p.Interp != "" {
		t.Errorf("a script: got %+v", p)
	}
	if _, err := Inspect(bytes.NewReader(b[:100]), int64(len(b))); err == nil {
		t.Error("a file that cannot be read: no error")
	}
}

// TestRawSignals: a load of the number and a syscall near it, in a program that a loader
// loads; and what only looks like that.
func TestRawSignals(t *testing.T) {
	const load, call = "\xb8\x0d\x00\x00\x00", "\x0f\x05"
	for name, c := range map[string]struct {
		code string
		want bool
	}{
		"adjacent":       {load + call, true},
		"an argument":    {load + "\x41\xba\x08\x00\x00\x00" + call, true},
		"rt_sigprocmask": {"\x48\xc7\xc0\x0e\x00\x00\x00" + call, true},
		"push, pop":      {"\x6a\x0d\x58" + call, true},
		"far away":       {load + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + call, false},
		"another call":   {"\xb8\x0c\x00\x00\x00" + call, false},
		"no call":        {load, false},
		"twice":          {load + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + load + call, true},
	} {
		got := false
		for _, l := range rawSignalCalls {
			got = got || rawSignalIn([]byte("\x90\x90"+c.code), l)
		}
		if got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
