package patch

import (
	"bytes"
	debugelf "debug/elf"
	"slices"
	"strings"
	"testing"
)

// TestPrelinkUndo: the undo data of a file with an injected segment have another name and the same bytes; every
// other section keeps its name. A file without a segment keeps the name.
func TestPrelinkUndo(t *testing.T) {
	stub := asm(t, "48c7c00004 60ff ffd0 c3")
	for _, tc := range []struct {
		name, section, want string
		forms               []Form
		warns               bool
	}{
		{"prelinked", ".gnu.prelink_undo", ".vfix.prelink_undo", nil, true},
		{"not prelinked", ".gnu.prelink_undoing", ".gnu.prelink_undoing", nil, false},
		{"without a segment", ".gnu.prelink_undo", ".gnu.prelink_undo", []Form{Syscall}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := (&testELF{text: stub, noteSection: tc.section, notes: 2}).build()
			p := planFile(t, file, Options{Forms: tc.forms})
			if got := slices.ContainsFunc(p.Consequences, func(w string) bool { return strings.Contains(w, "prelink -u") }); got != tc.warns {
				t.Errorf("got warnings %q", p.Warnings)
			}
			after := checkPatched(t, file, p, Options{Forms: tc.forms})
			was, is := sectionsOf(t, file), sectionsOf(t, after)
			for i, s := range was {
				want := s.Name
				if want == tc.section {
					want = tc.want
				}
				if want == ".shstrtab" && tc.forms == nil {
					want, s = movedName, is[i]
				}
				if is[i].Name != want {
					t.Errorf("section %d: got %s, want %s", i, is[i].Name, want)
				}
				a, errA := s.Data()
				b, errB := is[i].Data()
				if errA == nil && (errB != nil || !bytes.HasPrefix(b, a)) && s.Name != ".text" && s.Name != ".dynamic" {
					t.Errorf("section %s: other content", s.Name)
				}
			}
		})
	}
}

func sectionsOf(t *testing.T, file []byte) []*debugelf.Section {
	t.Helper()
	f, err := debugelf.NewFile(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return f.Sections
}
