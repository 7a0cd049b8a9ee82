package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
}

var kinds = map[string]kind{"": usual{}, "hotfix": hotfix{}, "install": install{}, "start": start{}}

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
func (usual) undone(*test, string, ended) {}
func (usual) state() state {
	return files(func(path string, _ fs.DirEntry) bool { return lock.MatchString(path) })
}

// prepare makes the directory work.
func (usual) prepare() {
	if err := os.RemoveAll(work); err != nil { // copies are immutable
		_ = exec.Command("chattr", "-R", "-f", "-i", work).Run()
		check(os.RemoveAll(work))
	}
	check(os.Mkdir(work, 0o755))
	if _, err := os.Stat("before"); err == nil {
		check(os.CopyFS(work, os.DirFS("before")))
	}
}

type hotfix struct{ usual }

// The store's notes beside copies, and locks, are removed by the next run if no copy has their name. Empty directories
// may stay.
var notes = regexp.MustCompile(`^work/copies/v1/(sums|leases|locks|tmp)/`)

func (hotfix) state() state {
	return files(func(path string, d fs.DirEntry) bool { return !d.Type().IsRegular() || notes.MatchString(path) })
}

type install struct{ usual }

// Its records, for uninstall, are there before anything else changes.
func (install) state() state {
	s := files(func(string, fs.DirEntry) bool { return false })
	maps.DeleteFunc(s, func(path, _ string) bool { return slices.Contains(strings.Split(path, "/"), "vfix-install") })
	return s
}

func (i install) undone(t *test, fault string, _ ended) {
	is := run(t.command[0], "uninstall", "docker", "--root", work)
	if is.status != 0 && !strings.Contains(is.errs, "is not installed") {
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
	return !slices.Contains(strings.Fields("openat write fstat newfstatat getdents64 fsync fchmod renameat unlinkat mkdirat flock execve"), call)
}

const record = "starts.jsonl"

func (s start) prepare() {
	check(os.RemoveAll("cache"))
	check(os.RemoveAll(record))
	s.usual.prepare()
}

// Its own notes, and the names of copies in a lease's directory, differ.
func (start) state() state {
	var spec struct {
		Mounts []struct{ Destination string }
	}
	b, err := os.ReadFile(filepath.Join(work, "config.json"))
	if err == nil {
		err = json.Unmarshal(b, &spec)
	}
	return state{"mounts": fmt.Sprint(spec.Mounts, err)}
}

func (start) undone(t *test, fault string, is ended) {
	var last struct{ Outcome string }
	if b, err := os.ReadFile(record); err == nil {
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		_ = json.Unmarshal([]byte(lines[len(lines)-1]), &last)
	}
	patched := last.Outcome == "patched"
	if is.status != 0 && patched {
		t.bad("%s: status %d, recorded as patched: %s", fault, is.status, is.errs)
	}
	if is.status == 0 && !patched && !strings.Contains(is.errs, "record: ") && !strings.Contains(is.errs, record) {
		t.bad("%s: starts, recorded as %q: %s", fault, last.Outcome, is.errs)
	}
}
