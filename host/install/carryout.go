// From a plan to the disk, and back if that fails.

package install

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"vfix.dev/vfix/host/policy"
)

// carryOut shows the steps, and writes them between the old record and the next; then the directories dirs go.
func (t *tree) carryOut(o Options, r *Result, next *state, steps []step, dirs []string) {
	if t.err != nil {
		return
	}
	todo := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return !s.changes() })
	for _, s := range todo {
		r.Changes = append(r.Changes, changeOf(s))
	}
	if len(todo) == 0 {
		r.Commands = nil
	}
	if o.Show != nil {
		o.Show(r)
	}
	if o.DryRun {
		return
	}
	// Until the end, the record also has the files that are being restored.
	during := &state{Schema: stateSchema, Files: slices.Clone(next.Files), Dirs: slices.Concat(next.Dirs, dirs)}
	for _, s := range steps {
		t.backup(s.base)
		if r := t.old.find(s.path); s.rec == nil && r != nil {
			during.Files = append(during.Files, *r)
		}
	}
	t.saveState(during)
	for _, s := range todo {
		if s.next != nil {
			t.makeDirs(t.missing(s.path))
		}
		t.write(s.path, s.next)
	}
	if t.err != nil {
		t.rollBack(next, todo)
		return
	}
	for _, s := range steps { // of a run that was killed
		t.failed(unlessGone(t.root.Remove(tempName(s.path))))
	}
	for _, d := range slices.Backward(dirs) {
		t.removeDir(d)
	}
	t.saveState(next)
	if t.err == nil && !t.exists(runtimeConfig) { // nor is its last content valid any longer
		t.failed(policy.Forget(o.Root, policy.ConfigFile))
	}
	t.tidy(next)
}

// rollBack restores everything after an error: the content of the files, and the old record.
func (t *tree) rollBack(next *state, todo []step) {
	errs := []error{t.err}
	for _, s := range slices.Backward(todo) {
		t.err = nil
		if now := t.read(s.path); hashOf(now) != hashOf(s.now) {
			t.write(s.path, s.now)
		}
		if t.err != nil {
			errs = append(errs, fmt.Errorf("and it could not be restored: %w", t.err))
		}
	}
	t.err = nil
	if len(errs) == 1 { // else the record of the plan stays, for uninstall
		for _, d := range slices.Backward(next.Dirs) {
			if !slices.Contains(t.old.Dirs, d) {
				t.removeDir(d)
			}
		}
		t.saveState(t.old)
		t.tidy(t.old)
	}
	t.err = errors.Join(append(errs, t.err)...)
}

// changeOf describes a step to people.
func changeOf(s step) Change {
	c := Change{Path: "/" + s.path, Action: s.action}
	from, to := "/dev/null", "/dev/null"
	if s.now != nil {
		from = c.Path
	}
	if s.next != nil {
		to, c.Size, c.Link = c.Path, len(s.next.data), s.next.link
	}
	a, b := string(s.now.bytes()), string(s.next.bytes())
	if !strings.Contains(a, "\x00") && !strings.Contains(b, "\x00") { // no program
		c.Diff = udiff.Unified(from, to, a, b)
	}
	return c
}
