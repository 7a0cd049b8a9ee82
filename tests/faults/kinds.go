package main

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kind is what differs from verb to verb.
type kind interface {
	prepare()
	// state is what counts of the directory work.
	state() state
	// undone looks at what else is to hold after each fault.
	undone(t *test, fault string, is ended)
	// leaves reports whether a call does not fail.
	leaves(call string) bool
	// starts reports whether a run that succeeds may leave something undone; undone looks at it.
	starts() bool
	// step reports whether a failed run may leave a file as a successful run does.
	step(path string) bool
}

var kinds = map[string]kind{"": usual{}, "install": install{}, "start": start{}}

// state is what is in a directory, by path.
type state map[string]string

// differs says in what; "" if in nothing.
func (s state) differs(from state) string {
	var all []string
	for _, path := range slices.Sorted(maps.Keys(s)) {
		if was, ok := from[path]; !ok {
			all = append(all, "more: "+path)
		} else if was != s[path] {
			all = append(all, "other: "+path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(from)) {
		if _, ok := s[path]; !ok {
			all = append(all, "missing: "+path)
		}
	}
	return strings.Join(all, ", ")
}

const work = "work"

// files is the state of the directory work without what is left out; modes and times do not count.
func files(leave func(path string, d fs.DirEntry) bool) state {
	s := state{}
	check(filepath.WalkDir(work, func(path string, d fs.DirEntry, err error) error {
		if err != nil || leave(path, d) {
			return err
		}
		switch content := d.Type().String(); {
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			s[path] = string(b)
			return err
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			s[path] = content + to
			return err
		default:
			s[path] = content
		}
		return nil
	}))
	return s
}

// usual is a verb whose result are files.
type usual struct{}

// lock is one that could not be removed: it holds up nobody.
var lock = regexp.MustCompile(`/\..*\.vfix-lock$`)

func (usual) leaves(string) bool          { return false }
func (usual) step(string) bool            { return false }
func (usual) starts() bool                { return false }
func (usual) undone(*test, string, ended) {}
func (usual) state() state {
	return files(func(path string, _ fs.DirEntry) bool { return lock.MatchString(path) })
}

// prepare makes the directory work.
func (usual) prepare() {
	check(os.RemoveAll(work))
	check(os.Mkdir(work, 0o755))
	if _, err := os.Stat("before"); err == nil {
		check(os.CopyFS(work, os.DirFS("before")))
	}
}

type install struct{ usual }

// Empty directories may stay.
func (install) state() state {
	return files(func(_ string, d fs.DirEntry) bool { return !d.Type().IsRegular() })
}

// The engine's file is the last one: until then it is as before, and a program is as before or whole.
func (install) step(path string) bool { return strings.HasPrefix(path, work+"/usr/local/lib/vfix/") }

func (i install) undone(t *test, fault string, _ ended) {
	is := run(t.command[0], "uninstall", "docker", "--root", work)
	if is.status != 0 {
		t.bad("uninstall after %s: %s", fault, is.errs)
	}
	if left := i.state().differs(t.before); left != "" {
		t.bad("uninstall after %s: left %s", fault, left)
	}
}

type start struct{ usual }

// Not read and close: os/exec reads from a pipe whether a child could be started, and waits for its end after an error;
// a pipe that is not closed has no end.
func (start) leaves(call string) bool {
	return !slices.Contains(strings.Fields("openat openat2 write fstat newfstatat getdents64 fsync fchmod renameat unlinkat mkdirat flock execve"), call)
}

const (
	record = "state/starts.jsonl"
	root   = "root" // of the container: an overlay over the directory lower
	upper  = work + "/upper"
)

func (s start) prepare() {
	_ = unix.Unmount(root, unix.MNT_DETACH) // the first time it is not mounted
	check(os.RemoveAll("state"))
	check(os.Mkdir("state", 0o700))
	s.usual.prepare()
	for _, dir := range []string{upper, work + "/overlay", root} {
		check(os.MkdirAll(dir, 0o755))
	}
	check(unix.Mount("none", root, "overlay", 0, "lowerdir=lower,upperdir="+upper+",workdir="+work+"/overlay"))
}

// Without a configuration the container starts, as it would without vfix.
func (start) starts() bool { return true }

// A file is there as a whole, or not.
func (start) step(path string) bool { return true }

// What counts is in the container's own layer.
func (start) state() state {
	return files(func(path string, d fs.DirEntry) bool { return !d.Type().IsRegular() || !strings.HasPrefix(path, upper) })
}

func (s start) undone(t *test, fault string, is ended) {
	var last struct{ Result string }
	if b, err := os.ReadFile(record); err == nil {
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		_ = json.Unmarshal([]byte(lines[len(lines)-1]), &last)
	}
	patched := last.Result == "patched"
	refused := strings.Contains(is.errs, "container not started")
	switch {
	case refused && patched, patched && s.state().differs(t.want) != "":
		t.bad("%s: status %d, recorded as patched: %s", fault, is.status, is.errs)
	case refused, patched: // the runtime may fail
	case last.Result == "clean", !t.names.MatchString(is.errs):
		t.bad("%s: starts, recorded as %q: %s", fault, last.Result, is.errs)
	}
}
