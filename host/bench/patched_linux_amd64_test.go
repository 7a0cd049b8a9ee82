package bench

import (
	"bytes"
	"os"
	"testing"

	"vfix.dev/vfix/rewriter/patch"
	"vfix.dev/vfix/shim"
)

// TestPatchedAsLibc: the library that is measured gets what a real libc gets, and no loader takes it for one.
func TestPatchedAsLibc(t *testing.T) {
	p := &place{dir: t.TempDir(), o: Options{Programs: Programs{Stubs: shim.Stubs()}}}
	if only, err := p.patched(patch.Entry, "patched.so"); err != nil || len(only) == 0 {
		t.Fatal(only, err)
	}
	file, err := os.ReadFile(p.path("patched.so"))
	if err != nil || bytes.Contains(file, libcName) || !bytes.Contains(file, stubsName) {
		t.Errorf("%v: the name is not %q", err, stubsName)
	}
	size := int64(len(p.o.Programs.Stubs))
	before := bytes.Replace(p.o.Programs.Stubs, stubsName, libcName, 1)
	after := bytes.Replace(file, stubsName, libcName, 1)
	v, err := patch.Verify(bytes.NewReader(before), size, bytes.NewReader(after), int64(len(after)), patch.Options{Forms: []patch.Form{patch.Entry}})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range v.Patches {
		if q.Form == patch.Entry && !q.Site.Named {
			t.Errorf("%v is not taken for a function of libc.so.6", q.Site.Function)
		}
	}
}
