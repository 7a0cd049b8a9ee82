package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestMutate: the mutants of each kind are found, and a package that has all of them compiles.
func TestMutate(t *testing.T) {
	const pkg = "vfix.dev/vfix/rewriter/elf"
	work := t.TempDir()
	path, mutants, err := mutate(pkg, work)
	if err != nil || path != pkg {
		t.Fatalf("got %s, %v", path, err)
	}
	kinds := map[kind]int{}
	for _, m := range mutants {
		kinds[m.kind]++
	}
	for _, k := range []kind{negated, boundary, dropped, constants, removed, swallowed} {
		if kinds[k] == 0 {
			t.Errorf("none of %s", k)
		}
	}
	if out, err := exec.Command("go", "build", "-overlay", filepath.Join(work, overlay), pkg).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
