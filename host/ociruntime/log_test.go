package ociruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestLogIsOneLine(t *testing.T) {
	var b bytes.Buffer
	newLogger(&command{}, &b).line("warning", "/a\x1b[2J\rb\nc\u009b\xff é: why")
	if got, want := b.String(), "vfix: /a?[2J?b; c?\ufffd é: why\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Lines in the engine's file and form; on standard error if that cannot be written.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var stderr bytes.Buffer
	for _, format := range []string{"", "text", "json"} {
		newLogger(&command{log: path, logFormat: format}, &stderr).line("warning", "a \"b\"\nc")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	const logrus = `^time="[^"]+Z" level=warning msg="vfix: a \\"b\\"; c"$`
	if len(lines) != 4 || !regexp.MustCompile(logrus).MatchString(lines[0]) || !regexp.MustCompile(logrus).MatchString(lines[1]) || lines[3] != "" || stderr.Len() > 0 {
		t.Errorf("got %q, on standard error %q", lines, &stderr)
	}
	var made struct{ Level, Msg, Time string }
	if err := json.Unmarshal([]byte(lines[2]), &made); err != nil || made.Level != "warning" || made.Msg != `vfix: a "b"; c` || made.Time == "" {
		t.Errorf("got %+v, %v", made, err)
	}
	for _, file := range []string{"", t.TempDir(), "/dev/full"} {
		stderr.Reset()
		log := newLogger(&command{log: file}, &stderr)
		log.line("error", "why")
		if got := stderr.String(); got != "vfix: why\n" {
			t.Errorf("%q: got %q", file, got)
		}
		stderr.Reset()
		if err := fail(log, errors.New("why")); err == nil || (stderr.Len() > 0) != (file != "") { // who calls it prints it
			t.Errorf("%q: got %v and %q", file, err, &stderr)
		}
	}
}
