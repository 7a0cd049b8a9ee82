package main

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"vfix.dev/vfix/rewriter/patch"
)

// The layer of an image is a patched library as long as a libc, and another one for each base: a
// library that cannot be patched would add the fallback instead, the same few kilobytes for all.
func TestBaseLibraryIsPatched(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("requires gcc")
	}
	t.Chdir("../..")
	b := &bench{dir: t.TempDir()}
	b.vfix = b.dir + "/vfix" // any file that is long enough
	filler := make([]byte, batchBases*legacyLibc)
	for i := range filler {
		filler[i] = byte(i * i >> 8)
	}
	if err := os.WriteFile(b.vfix, filler, 0o600); err != nil {
		t.Fatal(err)
	}
	var last []byte
	for n := range 2 {
		path, err := b.baseLibrary(n)
		if err != nil {
			t.Fatal(err)
		}
		library, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(library) < legacyLibc {
			t.Errorf("library %d: got %d bytes, want %d at least", n, len(library), legacyLibc)
		}
		if bytes.Equal(library, last) {
			t.Errorf("library %d is that of the base before", n)
		}
		last = library
		report, err := patch.Scan(bytes.NewReader(library), int64(len(library)))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := patch.NewPlan(report, patch.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if left := plan.LeftOver(); len(plan.Patches) != 3 || len(left) > 0 {
			t.Errorf("library %d: got %d call sites, %v not patched, want 3 and none", n, len(plan.Patches), left)
		}
	}
}
