package shim

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// Each file is one that Check misses, by name.
func TestCheck(t *testing.T) {
	if err := Check(); err != nil {
		t.Fatal(err)
	}
	for _, missing := range files {
		fsys := fstest.MapFS{}
		for _, name := range files {
			if name != missing {
				fsys["embedded/"+name] = &fstest.MapFile{}
			}
		}
		var unbuilt *UnbuiltError
		if err := check(fsys.Open); !errors.As(err, &unbuilt) || unbuilt.File != missing {
			t.Errorf("without %s: got %v", missing, err)
		}
	}
}

// In a clone where make has not run Go compiles everything, and vfix says what to type. The
// compiler sees that the files are missing.
func TestWithoutMake(t *testing.T) {
	directory, err := filepath.Abs("embedded")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for _, name := range files {
		replace[filepath.Join(directory, name)] = ""
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "vfix")
	build := exec.Command("go", "build", "-buildvcs=false", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "../cmd/vfix")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.Command(program, "scan", program).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "injected.bin") || !strings.Contains(string(out), "run 'make'") {
		t.Errorf("got %v, %s", err, out)
	}
}
