// Progress of a list.

package watch

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/outcome"
)

// The value of a label has the escapes of Prometheus and no others.
func TestLabelText(t *testing.T) {
	if got, want := labelText.Replace("r\"\\\u200b\n"), `r\"\\`+"\u200b"+`\n`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Without a terminal there is a line from time to time, with the time that is left.
func TestWatchLines(t *testing.T) {
	w := &List{all: 300, of: map[outcome.Status]int{outcome.Done: 99, outcome.Failed: 1}}
	if got := w.line(10 * time.Minute); got != "100 of 300 images (33%), 1 failed, about 20m0s left" {
		t.Errorf("got %q", got)
	}
	for n, want := range map[int]string{0: "0 of 1 image (0%), 0 failed", 1: "1 of 1 image (100%), 0 failed"} {
		w := &List{all: 1, of: map[outcome.Status]int{outcome.Done: n}}
		if got := w.line(time.Minute); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	watchLine, watchMetrics = time.Millisecond, time.Millisecond
	defer func() { watchLine, watchMetrics = time.Minute, 15*time.Second }()
	var b bytes.Buffer
	file := filepath.Join(t.TempDir(), "m")
	out := screen.New(io.Discard, &b)
	w = Start(file, 5, nil, out)
	if n := w.Finished(outcome.Image{Status: outcome.Done, Before: true, Patched: 3}); n != 1 {
		t.Errorf("got %d finished", n)
	}
	for range 1000 {
		time.Sleep(time.Millisecond)
		if _, err := os.Stat(file); err == nil {
			break
		}
	}
	if err := w.End(true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "1 of 5 images (20%), 0 failed, about") {
		t.Errorf("got %q", b.String())
	}
	const whole = "testdata/metrics.prom"
	data, err := os.ReadFile(file)
	got := regexp.MustCompile(`(timestamp_seconds) 1\d{9}\n`).ReplaceAllString(string(data), "$1 NOW\n")
	if want, readErr := os.ReadFile(whole); err != nil || readErr != nil || got != string(want) {
		t.Errorf("%v, %v: got\n%s\nwant %s", err, readErr, got, whole)
	}
}
