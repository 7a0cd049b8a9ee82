// Progress as lines, as bars, and not at all.

package main

import (
	"context"
	"strings"
	"sync"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/progress"
)

// busy reads two layers at once and says something.
func busy(p progress.Reporter) {
	var wg sync.WaitGroup
	for _, name := range []string{"sha256:5f70bf18a086", "sha256:a3ed95caeb02"} {
		wg.Add(1)
		go func() {
			defer wg.Done()
			t := p.Start("read", name, 3<<20)
			for range 3 {
				t.Add(1 << 20)
			}
			t.Done()
		}()
	}
	wg.Wait()
	p.Start("push", "sha256:5f70bf18a086", 3<<20).Done() // of the layer that was read
	p.Start("read", "evil\x1b[2J.tar", -1).Done()
	p.Note("layer %d: %s", 3, "token https://u:secret@reg.example/")
	p.Start("write", "never done", 10)
}

func progressOf(t *testing.T, mode string) string {
	t.Helper()
	e := engine{scan: func(_ context.Context, _ string, o images.ScanOptions) (*contents.Findings, error) {
		busy(o.Media.Progress)
		return clean(), nil
	}}
	got := runLine(e, "scan", "--progress", mode, "x")
	if got.status != 0 || !strings.Contains(got.stdout, "no call site") {
		t.Errorf("%s: got %+v", mode, got)
	}
	for _, bad := range []string{"\x1b[2J.tar", "secret"} {
		if strings.Contains(got.stderr, bad) {
			t.Errorf("%s: %q is in %q", mode, bad, got.stderr)
		}
	}
	return got.stderr
}

func TestProgressPlain(t *testing.T) {
	// The buffer is not a terminal: auto is plain.
	for _, mode := range []string{"plain", "auto"} {
		got := progressOf(t, mode)
		for _, want := range []string{
			"vfix: read sha256:5f70bf18a086 (3.0 MiB)\n", "vfix: read sha256:a3ed95caeb02 (3.0 MiB)\n",
			`vfix: read evil\x1b[2J.tar` + "\n", "vfix: layer 3: token https://reg.example/\n",
		} {
			if strings.Count(got, want) != 1 {
				t.Errorf("%s: %q is not there once: %q", mode, want, got)
			}
		}
		if strings.Contains(got, "push") {
			t.Errorf("%s: a layer has more than one line: %q", mode, got)
		}
	}
}

func TestProgressQuiet(t *testing.T) {
	if got := progressOf(t, "quiet"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestProgressBars(t *testing.T) {
	got := progressOf(t, "tty")
	for _, want := range []string{"read  sha256:5f70bf18a086", "read  sha256:a3ed95caeb02", "done", "3.0 MiB", "vfix: layer 3"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}
