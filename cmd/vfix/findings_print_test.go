// The tables of findings, against testdata.

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images/contents"
)

func TestTables(t *testing.T) {
	dir := patchable()
	dir.Source, dir.Digest = "dir:/srv/root", ""
	for i := range dir.Files {
		dir.Files[i].Layer = ""
	}
	for _, c := range []struct {
		golden string
		s      screen.Stream
		d      tables.Deed
		f      *contents.Findings
	}{
		{"table-clean.txt", screen.Stream{}, tables.Scanned, clean()},
		{"table-mixed.txt", screen.Stream{}, tables.Patched, mixed()},
		{"table-mixed-80.txt", screen.Stream{Tty: true, Width: 80}, tables.Scanned, mixed()},
		{"table-colour.txt", screen.Stream{Tty: true, Width: 120, Paint: screen.Palette{On: true}}, tables.Scanned, mixed()},
		{"table-directory.txt", screen.Stream{}, tables.Planned, dir},
		{"table-harmless.txt", screen.Stream{}, tables.Verified, harmless()},
	} {
		var b bytes.Buffer
		tables.Write(&b, c.s, c.d, c.f)
		golden(t, c.golden, b.String())
		for line := range strings.Lines(b.String()) {
			if n := runewidth.StringWidth(strings.TrimRight(line, "\n")); c.s.Width > 0 && !c.s.Paint.On && n > c.s.Width {
				t.Errorf("%s: a line of %d columns, want at most %d: %s", c.golden, n, c.s.Width, line)
			}
			if strings.Contains(line, "\x1b[31m.so") {
				t.Errorf("%s: a file name reaches the terminal: %q", c.golden, line)
			}
		}
	}
}
