package patch

import (
	"bytes"
	"os"
	"testing"

	"vfix.dev/vfix/rewriter/find"
)

// TestInspect reads programs that every test machine has, and text.
func TestInspect(t *testing.T) {
	inspect := func(b []byte) *find.Report {
		t.Helper()
		p, err := find.Inspect(bytes.NewReader(b), int64(len(b)))
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
	if p := inspect(b); p.Skipped != nil || !p.Go || p.Static != (p.Interp == "") {
		t.Errorf("this test: got %+v, want a program made by Go", p)
	}
	if b, err = os.ReadFile("/bin/sh"); err != nil {
		t.Fatal(err)
	}
	if p := inspect(b); p.Skipped != nil || p.Go || p.Static || p.RawSignals || p.Interp == "" {
		t.Errorf("/bin/sh: got %+v, want a dynamic program", p)
	}
	if p := inspect([]byte("#!/bin/sh\n")); p.Skipped == nil || p.Interp != "" {
		t.Errorf("a script: got %+v", p)
	}
	if _, err := find.Inspect(bytes.NewReader(b[:100]), int64(len(b))); err == nil {
		t.Error("a file that cannot be read: no error")
	}
}
