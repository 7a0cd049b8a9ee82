// The tables of findings, against testdata.

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"vfix.dev/vfix/cmd/vfix/screen"
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
		s      screen.Stream
		d      deed
		f      *contents.Findings
	}{
		{"table-clean.txt", screen.Stream{}, scanned, clean()},
		{"table-mixed.txt", screen.Stream{}, patched, mixed()},
		{"table-mixed-80.txt", screen.Stream{Tty: true, Width: 80}, scanned, mixed()},
		{"table-colour.txt", screen.Stream{Tty: true, Width: 120, Paint: screen.Palette{On: true}}, scanned, mixed()},
		{"table-folder.txt", screen.Stream{}, planned, folder},
		{"table-harmless.txt", screen.Stream{}, verified, harmless()},
	} {
		var b bytes.Buffer
		writeFindings(&b, c.s, c.d, c.f)
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
