//go:build linux && amd64

package shim

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// measureProgram writes vfix-measure to a file.
func measureProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vfix-measure")
	if err := os.WriteFile(path, Measure(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMeasure: what each verb prints, and with which status it refuses.
func TestMeasure(t *testing.T) {
	program := measureProgram(t)
	for _, c := range []struct {
		line   string
		stdin  string
		status int
		want   string
	}{
		{"probe syscall:time", "", 0, `^syscall:time 1[0-9]{9}\n$`},
		{"probe syscall:realtime", "", 0, `^syscall:realtime 0\n$`},
		{"entries syscall:time syscall:getcpu", "", 0, `^syscall:time 1000/1000\nsyscall:getcpu 1000/1000\n$`},
		{"time 2 100 syscall:time syscall:monotonic", "", 0, `^(syscall:time [0-9.]+\nsyscall:monotonic [0-9.]+\n){2}$`},
		{"--filter probe syscall:time", "\x06\x00\x00\x00\x00\x00\xff\x7f", 0, `^syscall:time 1[0-9]{9}\n$`}, // allow
		{"--filter probe syscall:time", "\x06\x00\x00\x00\x00\x00\x00\x00", -1, `^$`},                        // kill
		{"--filter probe syscall:time", "\x06\x00\x00", 2, `^$`},
		{"probe page:realtime", "", 4, `^$`},
		{"probe", "", 2, `^$`},
		{"probe nothing", "", 2, `^$`},
		{"probe vdso:nothing", "", 2, `^$`},
		{"time 0 100 syscall:time", "", 2, `^$`},
		{"", "", 2, `^$`},
	} {
		cmd := exec.Command(program, strings.Fields(c.line)...)
		cmd.Stdin = strings.NewReader(c.stdin)
		out, err := cmd.Output()
		status := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			status = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if status != c.status || !regexp.MustCompile(c.want).Match(out) {
			t.Errorf("vfix-measure %s: got status %d, %q, want %d, %s", c.line, status, out, c.status, c.want)
		}
	}
}
