// The changes that vfix makes to a file system: the files that it patches, and the additions because of those
// that it cannot patch, and for fixes.

package images

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/textutil"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// changes is what vfix makes of a file system.
type changes struct {
	targets  []contents.File
	extras   []contents.Extra // files of the fallback and of fixes
	fallback bool             // files of the fallback are among them
	traced   bool             // vfix-trace is put before the entrypoint
	done     string           // what they are, for the history of the image
	notes    []string
	left     map[string]string // the labels for what they leave
}

// findChanges decides what is patched and added. It notes in the findings what the fallback covers then.
func findChanges(ctx context.Context, f *contents.Findings, shim *fallback.Shim, mode fallback.Mode) (*changes, error) {
	c := &changes{targets: f.ToPatch()}
	chosen, err := shim.Choose(ctx, f, mode)
	if err != nil {
		return c, err
	}
	c.extras, c.fallback, c.traced = chosen.Files, len(chosen.Files) > 0, chosen.Traced
	if !c.none() {
		c.addFixes()
		c.left, c.notes = leftLabels(f), c.packageNotes(f.Tree)
	}
	return c, nil
}

// leftLabels say what remains of findings after their plans; an empty one is not written.
func leftLabels(f *contents.Findings) map[string]string {
	left := ""
	if n := f.Uncovered().Left; n > 0 {
		left = strconv.Itoa(n)
	}
	return map[string]string{keyLeft: left, keyIncomplete: f.IncompleteText()}
}

// none reports whether there is nothing to do.
func (c *changes) none() bool { return len(c.targets) == 0 && len(c.extras) == 0 && !c.traced }

// addFixes adds the files that programs with a fix read, and says what the changes are.
func (c *changes) addFixes() {
	fixed, patched := map[find.Fix]bool{}, false
	for _, h := range c.targets {
		if h.Plan.Redirected() {
			fixed[h.Plan.Redirect.Fix] = true
		}
		patched = patched || slices.ContainsFunc(h.Plan.Patches, func(p patch.Patch) bool { return p.Form != patch.Left })
	}
	var done []string
	if patched || c.fallback || len(fixed) == 0 {
		done = append(done, "calls to the vsyscall page rewritten to reach the vDSO")
	}
	if c.fallback {
		done = append(done, "fallback added")
	}
	for _, name := range find.Fixes {
		if fixed[name] {
			fix := addedfiles.FixOf(name)
			c.extras = append(c.extras, contents.Extra{Name: fix.File.Name, Mode: addedfiles.Mode, Body: fix.File.Body})
			done = append(done, fix.Done)
		}
	}
	c.done = strings.Join(done, "; ")
}

// packageDatabases are those whose check compares the files of packages with recorded checksums, by a file in them.
var packageDatabases = []struct{ file, check string }{
	{"var/lib/dpkg/status", "dpkg --verify"},
	{"var/lib/rpm/Packages", "rpm -Va"},
	{"var/lib/rpm/rpmdb.sqlite", "rpm -Va"},
}

// ownFile matches names that no package of a distribution has (FHS 3.0).
var ownFile = textutil.LazyRegexp("^(usr/local|home|root|srv)/")

// packageNotes says that the check of the tree's package manager will report the patched files.
func (c *changes) packageNotes(t *contents.Tree) (notes []string) {
	packaged := slices.ContainsFunc(c.targets, func(h contents.File) bool {
		return slices.ContainsFunc(h.Names, func(name string) bool { return !ownFile().MatchString(name) })
	})
	for _, db := range packageDatabases {
		if packaged && t.Find(db.file) != nil {
			notes = append(notes, db.check+" will report the patched files that belong to packages")
		}
	}
	return notes
}
