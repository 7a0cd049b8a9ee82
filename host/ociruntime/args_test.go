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
		not          bool // in spite of the command
	}{
		{line: "create --bundle /b c1", argv: "create --bundle /b c1", name: "create", bundle: "/b"},
		{line: "create -b /b --pid-file p c1", argv: "create -b /b --pid-file p c1", name: "create", bundle: "/b"},
		{line: "run --bundle=/b c1", argv: "run --bundle=/b c1", name: "run", bundle: "/b"},
		{line: "create --console-socket --bundle c1", argv: "create --console-socket --bundle c1", name: "create"},
		{line: "create c1 --pid-file --bundle /b", argv: "create c1 --pid-file --bundle /b", name: "create", not: true},
		// Help and versions start nothing, wherever runc or crun takes them.
		{line: "create -h", argv: "create -h", name: "create", not: true},
		{line: "run --help", argv: "run --help", name: "run", not: true},
		{line: "restore -h c1", argv: "restore -h c1", name: "restore", not: true},
		{line: "create --bundle /b c1 -h", argv: "create --bundle /b c1 -h", name: "create", bundle: "/b", not: true},
		{line: "create -help -b /b c1", argv: "create -help -b /b c1", name: "create", bundle: "/b", not: true},
		{line: "create --usage c1", argv: "create --usage c1", name: "create", not: true},
		{line: "create --hel c1", argv: "create --hel c1", name: "create", not: true},
		{line: "--help create --bundle /b c1", argv: "--help create --bundle /b c1", name: "create", bundle: "/b", not: true},
		{line: "-v run c1", argv: "-v run c1", name: "run", not: true},
		{line: "help create", argv: "help create", name: "help"},
		{line: "create", argv: "create", name: "create", not: true},
		{line: "create c1 c2", argv: "create c1 c2", name: "create", not: true},
		{line: "create --bundle /b", argv: "create --bundle /b", name: "create", bundle: "/b", not: true},
		// Lookalikes.
		{line: "create --help=false -b /b c1", argv: "create --help=false -b /b c1", name: "create", bundle: "/b"},
		{line: "create --bundle -h c1", argv: "create --bundle -h c1", name: "create", bundle: "-h"},
		{line: "create -b /b -- -h", argv: "create -b /b -- -h", name: "create", bundle: "/b"},
		{line: "create help", argv: "create help", name: "create"},
		{line: "--log -h create c1", argv: "--log -h create c1", name: "create", log: "-h"},
		// The end of the options.
		{line: "create --bundle /b -- c1", argv: "create --bundle /b -- c1", name: "create", bundle: "/b"},
		{line: "create -- c1 --bundle /b", argv: "create -- c1 --bundle /b", name: "create", not: true},
		{line: "create c1 -- --bundle /b", argv: "create c1 -- --bundle /b", name: "create", not: true},
		{line: "-- create --bundle /b c1", argv: "-- create --bundle /b c1", name: "create", bundle: "/b"},
		{line: "--root /r -- run -b /b c1", argv: "--root /r -- run -b /b c1", name: "run", bundle: "/b"},
		{line: "--fail-closed -- run -b /b c1", argv: "-- run -b /b c1", name: "run", bundle: "/b", closed: true},
		{line: "--", argv: "--"},
		// As crun has it.
		{line: "create -b/b c1", argv: "create -b/b c1", name: "create", bundle: "/b"},
		{line: "create --bund /b c1", argv: "create --bund /b c1", name: "create", bundle: "/b"},
		{line: "create --bu=/b c1", argv: "create --bu=/b c1", name: "create", bundle: "/b"},
		// As runc has it: -bundle; the last one counts.
		{line: "create -bundle /b c1", argv: "create -bundle /b c1", name: "create", bundle: "/b"},
		{line: "create -b /a --bundle /b c1", argv: "create -b /a --bundle /b c1", name: "create", bundle: "/b"},
		// Options of later versions, with a value or without.
		{line: "create --later --bundle /b c1", argv: "create --later --bundle /b c1", name: "create", bundle: "/b"},
		{line: "create --later value --bundle /b c1", argv: "create --later value --bundle /b c1", name: "create", bundle: "/b"},
		{line: "create --later=value -b /b c1", argv: "create --later=value -b /b c1", name: "create", bundle: "/b"},
		{line: "create --later -h -b /b c1", argv: "create --later -h -b /b c1", name: "create", bundle: "/b"},
		{line: "run -db /b c1", argv: "run -db /b c1", name: "run", bundle: "/b"},
		{line: "run -db/b c1", argv: "run -db/b c1", name: "run", bundle: "/b"},
		{line: "create -b /b c1 --later", argv: "create -b /b c1 --later", name: "create", bundle: "/b"},
		// Ours, in full alone.
		{line: "--fail-closed=false --fail-closed run c", argv: "run c", name: "run", closed: true},
		{line: "--fail-closed --fail-closed=false run c", argv: "run c", name: "run", closed: true},
		{line: "--fail-closed=no run c", argv: "run c", name: "run", closed: true},
		{line: "--later value create -b /b c1", argv: "--later value create -b /b c1", name: "create", bundle: "/b"},
		{line: "--later create -b /b c1", argv: "--later create -b /b c1", name: "create", bundle: "/b"},
		{line: "--later x", argv: "--later x", name: "x"},
		{line: "create --later --bundle /b", argv: "create --later --bundle /b", name: "create", bundle: "/b", not: true},
		{line: "--later exec create ls", argv: "--later exec create ls", name: "exec"},
		{line: "--run x run c", argv: "--run x run c", name: "run"},
		{line: "create c1 --bundle /b", argv: "create c1 --bundle /b", name: "create", bundle: "/b"},
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
		// A word before the command is one only after an option that may have it as its value.
		{line: "x create c1", argv: "x create c1", name: "x"},
		{line: "-- x create c1", argv: "-- x create c1", name: "x"},
		{line: "--debug x create c1", argv: "--debug x create c1", name: "x"},
		{line: "--later=1 x create c1", argv: "--later=1 x create c1", name: "x"},
		{line: "--later --debug x create -b /b c1", argv: "--later --debug x create -b /b c1", name: "create", bundle: "/b"},
		{line: "--later x create", argv: "--later x create", name: "create", not: true},
		{line: "create --dh c1", argv: "create --dh c1", name: "create"},
		{line: "create -dh c1", argv: "create -dh c1", name: "create", not: true},
		{line: "create -detach c1 c2", argv: "create -detach c1 c2", name: "create", not: true},
		{line: "create --help=true c1", argv: "create --help=true c1", name: "create", not: true},
		{line: "create -h --help=false c1", argv: "create -h --help=false c1", name: "create", not: true},
		{line: "--version", argv: "--version"},
		{line: "", argv: ""},
		{line: "-", argv: "-", name: "-"},
	} {
		got := parseArgs(strings.Fields(c.line))
		if argv := strings.Join(got.argv, " "); argv != c.argv {
			t.Errorf("%s: argv: got %q, want %q", c.line, argv, c.argv)
		}
		have := []any{got.name, got.bundle, got.log, got.logFormat, got.runtime, got.failClosed}
		want := []any{c.name, c.bundle, c.log, c.format, c.runtime, c.closed}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%s: got %v, want %v", c.line, have, want)
		}
		if want := (c.starts || c.name == "create" || c.name == "run") && !c.not; got.starts() != want {
			t.Errorf("%s: starts a container: got %v, want %v", c.line, got.starts(), want)
		}
	}
}

func TestParseOptions(t *testing.T) {
	for line, want := range map[string]command{
		"start c1":                                  {container: "c1"},
		"delete --force c1":                         {container: "c1"},
		"delete":                                    {},
		"run --preserve-fds 0 c":                    {container: "c"},
		"run --preserve-fds -1 c":                   {container: "c", fds: 1<<15 - 1},
		"run --preserve-fds 03 c":                   {container: "c", fds: 1<<15 - 1},
		"run --preserve-fds x c":                    {container: "c", fds: 1<<15 - 1},
		"run --preserve-fds 99999999999999999999 c": {container: "c", fds: 1<<15 - 1},
		"create -b":                                 {},
		"kill c1":                                   {},
		"--debug create --preserve-fds 3 c1":        {container: "c1", debug: true, fds: 3},
		"--debug=false create --pid-file p c":       {container: "c"},
		"--help --help=false create c1":             {container: "c1", help: true},
	} {
		got := parseArgs(strings.Fields(line))
		if got := (command{container: got.container, debug: got.debug, fds: got.fds, help: got.help}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", line, got, want)
		}
	}
}

// TestSpecPath: crun's --config names a file outside of the bundle, unless it is the usual name.
func TestSpecPath(t *testing.T) {
	for line, want := range map[string]string{
		"create -b /b c":                          "/b/config.json",
		"run --config /x/spec.json -b /b c":       "/x/spec.json",
		"run --bundle /b --config=/x/spec.json c": "/x/spec.json",
		"run -f /x/spec.json -b /b c":             "/x/spec.json",
		"run -f config.json -b /b c":              "/b/config.json",
		"run -b /b c -f /x/spec.json":             "/x/spec.json", // an error of both
		"run -f/x/spec.json -b /b c":              "/x/spec.json",
	} {
		c := parseArgs(strings.Fields(line))
		if got, err := c.specPath(c.bundle); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", line, got, err, want)
		}
	}
}

// FuzzParseArgs: without our own options, every byte of every argument is passed on.
func FuzzParseArgs(f *testing.F) {
	f.Add("--log\x00/l\x00create\x00-b\x00/b\x00c")
	f.Add("--\x00-\x00\x00=")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		for _, a := range args {
			if name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); ownOptions[name] != unknown {
				return
			}
		}
		if got := parseArgs(args); strings.Join(got.argv, "\x00") != line {
			t.Errorf("%q became %q", args, got.argv)
		}
	})
}
