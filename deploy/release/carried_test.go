package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The contents of a program are also listed: vfix contains vfix-runtime.
func TestCarriedPrograms(t *testing.T) {
	p := program(t)
	carried := filepath.Join(t.TempDir(), "vfix-runtime")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", carried, "../../cmd/vfix-runtime")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(carried)
	if err != nil {
		t.Fatal(err)
	}
	_, before, err := linked(p)
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.NewBufferString("Vfix-runtime, compressed\n")
	z := gzip.NewWriter(b)
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	b.WriteString("what follows in the program")
	f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	_, after, err := linked(p)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, m := range after {
		seen[m.Path]++
		if seen[m.Path] > 1 {
			t.Errorf("%s is listed twice", m.Path)
		}
	}
	for _, path := range []string{"github.com/moby/sys/mountinfo", "golang.org/x/arch", before[0].Path} {
		if seen[path] == 0 {
			t.Errorf("%s is not listed", path)
		}
	}
}
