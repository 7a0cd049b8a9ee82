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
	"vfix.dev/vfix/rewriter"
)

func TestEveryFormIsCounted(t *testing.T) {
	for _, form := range rewriter.Forms {
		f := clean()
		f.Files = []contents.File{fileOf("bin/x", "", patch(site(0x4012ab, rewriter.Time, rewriter.Live, "reaches the call at 0x4012b2"), form, ""))}
		var b bytes.Buffer
		tables.Write(&b, screen.Stream{}, tables.Scanned, f)
		if want := "1 call site can be patched (1 " + form.String() + ")"; !strings.Contains(b.String(), want) {
			t.Errorf("got %q, want %q", b.String(), want)
		}
	}
}

func TestEveryFormIsExplained(t *testing.T) {
	texts := map[string]struct{ text, before, after string }{
		"scan's legend":        {text: legend},
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
		for _, form := range rewriter.Forms {
			if !strings.Contains(c.text, c.before+form.String()+c.after) {
				t.Errorf("%s does not have the %v form", name, form)
			}
		}
	}
}
