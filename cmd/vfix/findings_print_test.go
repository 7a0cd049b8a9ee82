// The tables of findings, against testdata.

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"vfix.dev/vfix/images/contents"
)

func TestTables(t *testing.T) {
	folder := patchable()
	folder.Source, folder.Digest = "dir:/srv/root", ""
	for i := range folder.Files {
		folder.Files[i].Layer = ""
	}
	for _, c := range []struct {
		golden string
		s      stream
		d      deed
		f      *contents.Findings
	}{
		{"table-clean.txt", stream{}, scanned, clean()},
		{"table-mixed.txt", stream{}, patched, mixed()},
		{"table-mixed-80.txt", stream{tty: true, width: 80}, scanned, mixed()},
		{"table-colour.txt", stream{tty: true, width: 120, paint: palette{on: true}}, scanned, mixed()},
		{"table-folder.txt", stream{}, planned, folder},
		{"table-harmless.txt", stream{}, verified, harmless()},
	} {
		var b bytes.Buffer
		writeFindings(&b, c.s, c.d, c.f)
		golden(t, c.golden, b.String())
		for line := range strings.Lines(b.String()) {
			if n := runewidth.StringWidth(strings.TrimRight(line, "\n")); c.s.width > 0 && !c.s.paint.on && n > c.s.width {
				t.Errorf("%s: a line of %d columns, want at most %d: %s", c.golden, n, c.s.width, line)
			}
			if strings.Contains(line, "\x1b[31m.so") {
				t.Errorf("%s: a file name reaches the terminal: %q", c.golden, line)
			}
		}
	}
}
