//go:build linux && amd64

package tinyelf

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"vfix.dev/vfix/rewriter/patch"
)

// The program reports whether it is patched. Unpatched, its result depends on this kernel: it says
// so, or there is no page.
func TestProgram(t *testing.T) {
	original := Bytes(18)
	if f, err := elf.NewFile(bytes.NewReader(original)); err != nil || f.Entry != base+codeAt {
		t.Fatalf("got %+v, %v", f, err)
	}
	run := func(b []byte) int {
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, b, 0o755); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(path)
		_ = c.Run()
		return c.ProcessState.ExitCode()
	}
	if got := run(original); got != Unpatched && got != -1 {
		t.Errorf("unpatched: exit status %d, want %d, or a signal", got, Unpatched)
	}
	r, err := patch.Scan(bytes.NewReader(original), int64(len(original)))
	if err != nil || len(r.Sites) != 1 {
		t.Fatalf("got %+v, %v, want 1 site", r, err)
	}
	p, err := patch.NewPlan(r, patch.Options{})
	if err != nil || p.Empty() {
		t.Fatalf("got %+v, %v, want a patch", p, err)
	}
	patched, err := io.ReadAll(p.Apply(bytes.NewReader(original)))
	if err != nil {
		t.Fatal(err)
	}
	if got := run(patched); got != Patched {
		t.Errorf("patched: exit status %d, want %d", got, Patched)
	}
	if bytes.Equal(Bytes(1), Bytes(2)) {
		t.Error("two numbers, one file")
	}
}
