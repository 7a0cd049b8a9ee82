// Uninstall: each file gets back what it held, or loses vfix's part if it was changed
// since.

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

// Uninstall takes back what Install did for an engine, or for all: each file gets back the
// bytes, the mode and the owner that it had; what was not there goes. Where a file was changed
// since, only vfix's part of it goes. Files that another engine needs stay. While containers
// run that were started through vfix it refuses, or leaves them a way to the real runtime.
func Uninstall(o Options) (*Result, error) {
	t, err := openTree(o.Root)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if _, err := t.root.Lstat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return &Result{}, nil // and nothing is written to find that out
	}
	return withTree(o, func(t *tree, st *state) (*Result, error) { return t.uninstall(o, st) })
}

func (t *tree) uninstall(o Options, st *state) (*Result, error) {
	r := &Result{Engines: st.engines()}
	if o.Engine != "" {
		r.Engines = slices.DeleteFunc(r.Engines, func(e Engine) bool { return e != o.Engine })
	}
	waiting := t.keepFor(o, st, r)
	for _, e := range r.Engines {
		if undo := engines[e].undo; undo != nil && len(waiting[e]) == 0 {
			r.Commands = append(r.Commands, undo...)
			r.Notes = append(r.Notes, fmt.Sprintf("%s forgets a runtime only when it is restarted, not on a reload", e))
		} else {
			r.Commands = append(r.Commands, engines[e].commands...)
		}
	}
	next := &state{Schema: stateSchema}
	var steps []step
	// In the order opposite to that of install: no engine names what is gone.
	for _, rec := range slices.Backward(slices.Clone(st.Files)) {
		left := slices.DeleteFunc(slices.Clone(rec.Engines), func(e Engine) bool { return slices.Contains(r.Engines, e) })
		if len(left) > 0 {
			rec.Engines = left
			next.Files = append([]record{rec}, next.Files...)
			continue
		}
		if slices.ContainsFunc(rec.Engines, func(e Engine) bool { return len(waiting[e]) > 0 && (e != Containerd || rec.Kind == program) }) {
			s, needed, err := t.leave(rec)
			if err != nil {
				return nil, err
			}
			if needed && rec.Kind == program {
				err = t.spare(o, s, r)
			}
			if err != nil {
				return nil, err
			}
			if needed {
				s.rec.Engines = slices.DeleteFunc(slices.Clone(rec.Engines), func(e Engine) bool { return len(waiting[e]) == 0 })
				steps = append(steps, *s)
				next.Files = append([]record{*s.rec}, next.Files...)
				continue
			}
		}
		s, note, err := t.undoStep(rec)
		if err != nil {
			return nil, err
		}
		if note != "" {
			r.Warnings = append(r.Warnings, note)
		}
		if path.Base(rec.Path) == runtimeName && s.action == Remove {
			if err := t.spare(o, &s, r); err != nil {
				return nil, err
			}
		}
		steps = append(steps, s)
	}
	dirs := []string{}
	for _, d := range st.Dirs {
		needed := slices.ContainsFunc(next.Files, func(f record) bool {
			return strings.HasPrefix(f.Path, d+"/") || strings.HasPrefix(stateFile, d+"/")
		})
		if needed {
			next.Dirs = append(next.Dirs, d)
		} else {
			dirs = append(dirs, d)
		}
	}
	if len(next.Files) == 0 {
		t.noteKept(r)
	}
	if err := t.carryOut(o, r, st, next, steps, dirs); err != nil {
		return nil, err
	}
	return r, nil
}

// keepFor finds the containers that wait, and says what is kept for them; with Force nothing is.
func (t *tree) keepFor(o Options, st *state, r *Result) map[Engine][]string {
	all := map[Engine][]string{}
	i := slices.IndexFunc(st.Files, func(f record) bool { return f.Kind == program && path.Base(f.Path) == runtimeName })
	if i < 0 {
		return all
	}
	runtime := st.Files[i]
	for _, e := range r.Engines {
		waiting := t.waiting(e, runtime.Name, "/"+runtime.Path)
		if len(waiting) == 0 {
			continue
		}
		text := fmt.Sprintf("%s: containers name the runtime %s: %s; ", e, runtime.Name, listed(waiting))
		if o.Force {
			r.Warnings = append(r.Warnings, text+"they do not start any more: create them again without it")
			continue
		}
		all[e] = waiting
		r.Warnings = append(r.Warnings, text+fmt.Sprintf("so that they start, unpatched, the runtime stays, and /%s becomes a link to the real one; "+
			"create them again without it, then run 'vfix uninstall' again (with --force it goes at once)", runtime.Path))
	}
	return all
}

// noteKept names what containers' starts have written: install did not create it, and hotfix
// keeps copies in the same directory.
func (t *tree) noteKept(r *Result) {
	for what, name := range map[string]string{"cache": policy.DefaultCacheDir, "record of starts": policy.DefaultRecord} {
		if _, err := t.root.Lstat(strings.TrimPrefix(name, "/")); err == nil {
			r.Notes = append(r.Notes, fmt.Sprintf("the %s is kept: %s", what, name))
		}
	}
	slices.Sort(r.Notes)
}

// undoStep plans how one file is taken back.
func (t *tree) undoStep(rec record) (step, string, error) {
	now, err := t.read(rec.Path, maxProgram)
	if err != nil {
		return step{}, "", err
	}
	next, note, err := t.undo(&rec, now)
	s := step{path: rec.Path, now: now, next: next, action: Restore}
	switch {
	case next == nil:
		s.action = Remove
	case note != "":
		s.action = TakeOut
	}
	return s, note, err
}
