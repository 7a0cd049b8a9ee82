// Long messages and facts on terminals of several widths.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/doctor"
	"vfix.dev/vfix/internal/hinterr"
)

// longText has a word at each place where a terminal might break it.
const longText = "registry.example/team/app:1: layer sha256:0123456789ab: usr/lib/x86_64-linux-gnu/libc.so.6: call site at vaddr 0x4012ab: no room for a trampoline"

// widest is the width of the longest line, in columns, without escape sequences.
func widest(text string) int {
	n := 0
	for line := range strings.Lines(text) {
		n = max(n, runewidth.StringWidth(strings.TrimRight(line, "\n")))
	}
	return n
}

// Messages wrap at words on a terminal, and colours do not change where.
func TestMessagesWrap(t *testing.T) {
	for _, width := range []int{40, 80, 200, 0} {
		var plain string
		for _, on := range []bool{false, true} {
			var stderr bytes.Buffer
			o := newOutput(&bytes.Buffer{}, &stderr)
			o.Err.Width, o.Err.Paint.On = width, on
			o.fail(hinterr.With(errors.New(longText), "write an OCI archive, which has room for it: vfix rebuild registry.example/team/app:1 -o oci-archive:app.tar"))
			o.Warn("%s", longText)
			o.Note("%s", longText)
			got := stderr.String()
			for _, code := range []string{"\x1b[1;31m", "\x1b[33m", "\x1b[1m", "\x1b[0m"} {
				if on && !strings.Contains(got, code) {
					t.Errorf("width %d: no %q in\n%s", width, code, got)
				}
				got = strings.ReplaceAll(got, code, "")
			}
			if !on {
				plain = got
			}
			if got != plain {
				t.Errorf("width %d: got with colour\n%s\nwithout\n%s", width, got, plain)
			}
			const longest = 46 // columns of the longest word, "      " and "oci-archive:app.tar" included
			switch {
			case width == 0 && strings.Count(got, "\n") != 4:
				t.Errorf("no terminal: got\n%s", got)
			case width > 0 && widest(got) > max(width, longest):
				t.Errorf("width %d: got a line of %d columns in\n%s", width, widest(got), got)
			case width == 80 && !strings.Contains(got, "\n      usr/lib/x86_64-linux-gnu/libc.so.6: call site"):
				t.Errorf("width %d: further lines are not under the first: got\n%s", width, got)
			}
			if words := strings.Join(strings.Fields(strings.ReplaceAll(got, screen.Prefix, "")), " "); !strings.Contains(words, longText+" "+longText) {
				t.Errorf("width %d: words are lost or broken: got\n%s", width, got)
			}
		}
	}
}

// Of many crashes in the log, doctor shows examples.
func TestManyFacts(t *testing.T) {
	for n, want := range map[int]string{10: "line 9\n", 11: "line 2\n         8 more are not shown: --format json lists them all\n"} {
		c := &doctor.Check{Name: "kernel-log", Verdict: doctor.Warn, Found: "crashes"}
		for i := range n {
			c.Lines = append(c.Lines, fmt.Sprintf("line %d", i))
		}
		var stdout bytes.Buffer
		o := newOutput(&stdout, &bytes.Buffer{})
		o.check(c)
		if err := o.Flush(); err != nil || !strings.HasSuffix(stdout.String(), want) {
			t.Errorf("%d lines: got\n%s", n, stdout.String())
		}
	}
}

// So do the facts of doctor.
func TestFactsWrap(t *testing.T) {
	c := &doctor.Check{Name: "engine", Verdict: doctor.Warn, Found: longText, Lines: []string{"short   columns", longText}, Means: longText, Do: longText, Notes: []string{longText}}
	for _, width := range []int{80, 200} {
		var stdout bytes.Buffer
		o := newOutput(&stdout, &bytes.Buffer{})
		o.Out.Width = width
		o.check(c)
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
		got := stdout.String()
		if widest(got) > width || !strings.Contains(got, "         short   columns\n") {
			t.Errorf("width %d: got\n%s", width, got)
		}
	}
}
