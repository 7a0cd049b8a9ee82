// Uninstall: each file gets its former content back, or loses vfix's part if it was changed since.

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/host/policy"
)

// Uninstall undoes what Install did for an engine, or for all: each file gets its former bytes, mode and
// owner back; new files are removed. If a file was changed since, only vfix's part of it is removed. Files
// that another engine needs stay. While containers that were started through vfix are running, it refuses, or
// leaves them a link to the real runtime.
func Uninstall(o Options) (*Result, error) {
	t, err := openTree(o.Root)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if _, err := t.root.Lstat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return &Result{}, nil // and nothing is written to find that out
	}
	return withTree(o, func(t *tree) *Result { return t.uninstall(o) })
}

func (t *tree) uninstall(o Options) *Result {
	r := &Result{Engines: t.old.engines()}
	if o.Engine != "" {
		r.Engines = slices.DeleteFunc(r.Engines, func(e Engine) bool { return e != o.Engine })
	}
	waiting := t.keepFor(o, r)
	for _, e := range r.Engines {
		if undo := engines[e].undo; undo != nil && !waiting[e] {
			r.Commands = append(r.Commands, undo...)
			r.Notes = append(r.Notes, fmt.Sprintf("%s forgets a runtime only when it is restarted, not on a reload", e))
		} else {
			r.Commands = append(r.Commands, engines[e].commands...)
		}
	}
	next := &state{Schema: stateSchema}
	var steps []step
	// In the reverse order of install: no engine ever names a file that is gone.
	for _, rec := range slices.Backward(t.old.Files) {
		if left := without(rec.Engines, func(e Engine) bool { return slices.Contains(r.Engines, e) }); len(left) > 0 {
			rec.Engines = left
			next.Files = append(next.Files, rec)
			continue
		}
		s := t.leave(rec, waiting)
		if s == nil {
			undone := t.undoStep(rec, r)
			s = &undone
		} else {
			next.Files = append(next.Files, *s.rec)
		}
		if rec.Kind == program && path.Base(rec.Path) == runtimeName && (s.rec != nil || s.action == Remove) {
			t.spare(o, s, r)
		}
		steps = append(steps, *s)
	}
	slices.Reverse(next.Files)
	var dirs []string
	for _, d := range t.old.Dirs {
		if slices.ContainsFunc(next.Files, func(f record) bool { return strings.HasPrefix(f.Path, d+"/") || strings.HasPrefix(stateFile, d+"/") }) {
			next.Dirs = append(next.Dirs, d)
		} else {
			dirs = append(dirs, d)
		}
	}
	if len(next.Files) == 0 {
		t.noteKept(r)
	}
	t.carryOut(o, r, next, steps, dirs)
	return r
}

// without is a copy of a list that lacks some engines.
func without(all []Engine, lacks func(Engine) bool) []Engine {
	return slices.DeleteFunc(slices.Clone(all), lacks)
}

// noteKept names the files that starts of containers have written: install did not create it, and hotfix
// keeps copies in the same directory.
func (t *tree) noteKept(r *Result) {
	for _, kept := range [][2]string{{"cache", policy.DefaultCacheDir}, {"record of starts", policy.DefaultRecord}} {
		if _, err := t.root.Lstat(strings.TrimPrefix(kept[1], "/")); err == nil {
			r.Notes = append(r.Notes, fmt.Sprintf("the %s is kept: %s", kept[0], kept[1]))
		}
	}
	slices.Sort(r.Notes)
}

// undoStep plans how one file is restored.
func (t *tree) undoStep(rec record, r *Result) step {
	now := t.read(rec.Path)
	next, note := t.undo(&rec, now)
	s := step{path: rec.Path, now: now, next: next, action: Restore}
	switch {
	case next == nil:
		s.action = Remove
	case note != "":
		s.action = TakeOut
	}
	if note != "" {
		r.Warnings = append(r.Warnings, note)
	}
	return s
}
