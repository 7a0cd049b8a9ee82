// Call sites that the fallback covers are not findings.

package main

import (
	"bytes"
	"debug/elf"
	"testing"

	"vfix.dev/vfix/rewriter/patch"
)

// The fallback's own files hold the page's address, and yet no reference that vfix would
// patch or report: they are in the images that it scans.
func TestFallbackIsNoFinding(t *testing.T) {
	s := fallbackShim()
	for name, b := range map[string][]byte{"libvfix.so": s.Library, "its twin": s.Library32, "vfix-trace": s.Trace} {
		r, err := patch.Scan(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if r.Skipped.Damaged() || len(r.Sites) != 0 {
			t.Errorf("%s: got %+v, want no reference to the page", name, r)
		}
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if libs, err := f.ImportedLibraries(); err != nil || len(libs) != 0 {
			t.Errorf("%s: needs %v, %v, want nothing", name, libs, err)
		}
		if class := f.Class == elf.ELFCLASS32; class != (name == "its twin") {
			t.Errorf("%s: got %v", name, f.Class)
		}
	}
}
