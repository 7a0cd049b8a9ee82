// From a plan to the disk, and back if that fails.

package install

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"vfix.dev/vfix/host/policy"
)

// carryOut shows the steps, and writes them between the old record and the next.
func (t *tree) carryOut(o Options, r *Result, old, next *state, steps []step, dirs []string) error {
	var todo []step
	for _, s := range steps {
		if s.changes() {
			todo = append(todo, s)
			r.Changes = append(r.Changes, changeOf(s))
		}
	}
	if len(todo) == 0 {
		r.Commands = nil
	}
	if o.Show != nil {
		o.Show(r)
	}
	if o.DryRun {
		return nil
	}
	for _, s := range steps {
		if s.rec == nil || s.rec.Before == "" || s.rec.Link != "" {
			continue
		}
		base := s.now
		if hashOf(base) != s.rec.Before {
			if known := old.find(s.path); known != nil && known.Before == s.rec.Before {
				continue // the copy is there
			}
			var err error
			if base, err = t.without(s.path, s.now); err != nil {
				return err
			}
		}
		if err := t.backup(base); err != nil {
			return err
		}
	}
	// Until the end the record also has what is being taken back.
	during := &state{Schema: stateSchema, Files: slices.Clone(next.Files), Dirs: append(slices.Clone(next.Dirs), dirs...)}
	for _, s := range steps {
		if r := old.find(s.path); s.rec == nil && r != nil {
			during.Files = append(during.Files, *r)
		}
	}
	if err := t.saveState(during); err != nil {
		return err
	}
	if err := t.apply(todo); err != nil {
		return errors.Join(err, t.rollBack(old, next, todo))
	}
	for _, s := range steps { // of a run that was killed
		if err := t.root.Remove(tempName(s.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, d := range slices.Backward(dirs) {
		t.removeDir(d)
	}
	if err := t.saveState(next); err != nil {
		return err
	}
	if !t.exists(runtimeConfig) { // nor does its last content hold any longer
		if err := policy.Forget(o.Root, policy.ConfigFile); err != nil {
			return err
		}
	}
	return t.tidy(next)
}

// apply writes the steps in their order.
func (t *tree) apply(todo []step) error {
	for _, s := range todo {
		if s.next != nil {
			dirs, err := t.missing(s.path)
			if err != nil {
				return err
			}
			if err := t.makeDirs(dirs, 0o755); err != nil {
				return err
			}
		}
		if err := t.write(s.path, s.next); err != nil {
			return err
		}
	}
	return nil
}

// rollBack puts everything back after an error: what the files held, and the old record.
func (t *tree) rollBack(old, next *state, todo []step) error {
	var errs []error
	for _, s := range slices.Backward(todo) {
		now, err := t.read(s.path, maxProgram)
		if err == nil && hashOf(now) != hashOf(s.now) {
			err = t.write(s.path, s.now)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("and it could not be put back: %w", err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...) // the record of the plan stays: uninstall takes it up
	}
	for _, d := range slices.Backward(next.Dirs) {
		if !slices.Contains(old.Dirs, d) {
			t.removeDir(d)
		}
	}
	if err := t.saveState(old); err != nil {
		return err
	}
	return t.tidy(old)
}

// changeOf describes a step to people.
func changeOf(s step) Change {
	c := Change{Path: "/" + s.path, Action: s.action}
	from, to := "/dev/null", "/dev/null"
	var a, b string
	if s.now != nil {
		from, a = c.Path, string(s.now.data)
	}
	if s.next != nil {
		to, b = c.Path, string(s.next.data)
		c.Size, c.Link = len(s.next.data), s.next.link
	}
	if strings.Contains(a, "\x00") || strings.Contains(b, "\x00") {
		return c // a program
	}
	c.Diff = udiff.Unified(from, to, a, b)
	return c
}
