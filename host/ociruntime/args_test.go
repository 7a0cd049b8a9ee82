package ociruntime

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseArgs(t *testing.T) {
	for _, c := range []struct {
		line, argv   string
		name, bundle string
		log, format  string
		runtime      string
		closed       bool
		starts       bool // beside create and run
	}{
		{line: "create --bundle /b c1", argv: "create --bundle /b c1", name: "create", bundle: "/b"},
		{line: "create -b /b --pid-file p c1", argv: "create -b /b --pid-file p c1", name: "create", bundle: "/b"},
		{line: "run --bundle=/b c1", argv: "run --bundle=/b c1", name: "run", bundle: "/b"},
		{line: "create --console-socket --bundle c1", argv: "create --console-socket --bundle c1", name: "create"},
		{line: "create c1 --bundle /b", argv: "create c1 --bundle /b", name: "create"},
		{line: "--root /r --log /l --log-format json create -b=/b c", argv: "--root /r --log /l --log-format json create -b=/b c",
			name: "create", bundle: "/b", log: "/l", format: "json"},
		{line: "-log /l -debug run c", argv: "-log /l -debug run c", name: "run", log: "/l"},
		{line: "--systemd-cgroup --log=/l delete --force c", argv: "--systemd-cgroup --log=/l delete --force c", name: "delete", log: "/l"},
		{line: "--root create exec c ls", argv: "--root create exec c ls", name: "exec"},
		{line: "exec c create --bundle /b", argv: "exec c create --bundle /b", name: "exec"},
		{line: "--runtime crun --fail-closed --root /r create c", argv: "--root /r create c", name: "create", runtime: "crun", closed: true},
		{line: "--runtime=/x/crun create c --runtime y", argv: "create c --runtime y", name: "create", runtime: "/x/crun"},
		{line: "--fail-closed=false run c", argv: "run c", name: "run"},
		{line: "restore --image-path /i --work-path /w --manage-cgroups-mode soft --bundle /b c1",
			argv: "restore --image-path /i --work-path /w --manage-cgroups-mode soft --bundle /b c1", name: "restore", bundle: "/b", starts: true},
		{line: "--version", argv: "--version"},
		{line: "", argv: ""},
		{line: "-", argv: "-", name: "-"},
	} {
		got := parseArgs(strings.Fields(c.line))
		if argv := strings.Join(got.argv, " "); argv != c.argv {
			t.Errorf("%s: argv: got %q, want %q", c.line, argv, c.argv)
		}
		closed := got.failClosed != nil && *got.failClosed
		have := []any{got.name, got.bundle, got.log, got.logFormat, got.runtime, closed}
		want := []any{c.name, c.bundle, c.log, c.format, c.runtime, c.closed}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%s: got %v, want %v", c.line, have, want)
		}
		if want := c.starts || c.name == "create" || c.name == "run"; got.starts() != want {
			t.Errorf("%s: starts a container: got %v, want %v", c.line, got.starts(), want)
		}
	}
}

// TestSpecPath: crun's --config names a file that the bundle has no part in, unless it is the usual name.
func TestSpecPath(t *testing.T) {
	for line, want := range map[string]string{
		"create -b /b c":                          "/b/config.json",
		"run --config /x/spec.json -b /b c":       "/x/spec.json",
		"run --bundle /b --config=/x/spec.json c": "/x/spec.json",
		"run -f /x/spec.json -b /b c":             "/x/spec.json",
		"run -f config.json -b /b c":              "/b/config.json",
		"run -b /b c -f /x/spec.json":             "/b/config.json",
	} {
		c := parseArgs(strings.Fields(line))
		if got, err := c.specPath(c.bundle); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", line, got, err, want)
		}
	}
}

// FuzzParseArgs: without options of ours, every byte of every argument goes through.
func FuzzParseArgs(f *testing.F) {
	f.Add("--log\x00/l\x00create\x00-b\x00/b\x00c")
	f.Add("--\x00-\x00\x00=")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		for _, a := range args {
			if name, _, _, ok := option(a); ok && (ownValues[name] || name == "fail-closed") {
				return
			}
		}
		if got := parseArgs(args); strings.Join(got.argv, "\x00") != line {
			t.Errorf("%q became %q", args, got.argv)
		}
	})
}
