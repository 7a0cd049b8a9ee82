// Every form has its place wherever forms are counted or explained.

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

func TestEveryFormIsCounted(t *testing.T) {
	for _, form := range patch.Forms {
		f := clean()
		f.Files = []contents.File{fileOf("bin/x", "", patchOf(site(0x4012ab, find.Time, find.Live, "reaches the call at 0x4012b2"), form, ""))}
		var b bytes.Buffer
		tables.Write(&b, screen.Stream{}, tables.Scanned, f)
		if want := "1 call site can be patched (1 " + form.String() + ")"; !strings.Contains(b.String(), want) {
			t.Errorf("got %q, want %q", b.String(), want)
		}
	}
}

// everyForm is a source with a site of each form.
func everyForm() []*contents.Findings {
	f := clean()
	for _, form := range patch.Forms {
		f.Files = append(f.Files, fileOf("bin/"+form.String(), "", patchOf(site(0x4012ab, find.Time, find.Live, ""), form, "")))
	}
	return []*contents.Findings{f}
}

// The legend has the words that occur, and no others.
func TestLegend(t *testing.T) {
	f := clean()
	f.Files = []contents.File{fileOf("bin/x", "", patchOf(site(0x4012ab, find.Time, find.Live, ""), patch.Lea, ""))}
	if got, want := legend([]*contents.Findings{f}, false), "A call site is code that calls the vsyscall page. lea is the form in which vfix patches it: see 'vfix help how-it-works'."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := legend([]*contents.Findings{f}, true), "A call site is code that calls the vsyscall page. live: calls the page. lea is"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	g := clean()
	g.Files = []contents.File{fileOf("bin/x", "", patchOf(site(0x4012ab, find.Time, find.Unknown, ""), patch.Left, "x"), patchOf(site(0x4012ab, find.Time, find.Dormant, ""), patch.Left, "x"))}
	if got, want := legend([]*contents.Findings{g}, false), "A call site is code that calls the vsyscall page. unknown: cannot be proved; dormant: used only on kernels without a vDSO."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEveryFormIsExplained(t *testing.T) {
	texts := map[string]struct{ text, before, after string }{
		"scan's legend":        {text: legend(everyForm(), false)},
		"docs/json.md":         {before: "`", after: "`"},
		"docs/how-it-works.md": {before: "\n| ", after: " |"},
		"docs/schema.json":     {before: `"`, after: `"`},
		"docs/security.md":     {before: "`", after: "`"},
	}
	for name, c := range texts {
		if c.text == "" {
			b, err := os.ReadFile("../../" + name)
			if err != nil {
				t.Fatal(err)
			}
			c.text = string(b)
		}
		for _, form := range patch.Forms {
			if !strings.Contains(c.text, c.before+form.String()+c.after) {
				t.Errorf("%s does not have the %v form", name, form)
			}
		}
	}
}
