// The errors that report what remains: call sites that were not patched, and what was not examined.

package main

import (
	"cmp"
	"slices"
	"strings"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/internal/textutil"
	"vfix.dev/vfix/rewriter/find"
)

// incomplete is the finding that a source was not examined whole: it may have call sites that were not found.
func incomplete(f *contents.Findings) error {
	if f.Complete() {
		return nil
	}
	if missing := f.MissingLibraries(); len(missing) > 0 && f.Unread() == 0 {
		hint := "name the root filesystem that it runs in: 'vfix scan --root DIR " + textutil.QuotePath(f.Source) + "', where / is this machine"
		if f.Loads.Root == "" { // of a tarball
			hint = "unpack it on the machine that runs it: 'vfix scan DIR' also examines the libraries that its programs load from there"
		}
		return incompletef(hint, "%s: incomplete: the libraries that it loads were not examined: %s", f.Name(), strings.Join(missing, ", "))
	}
	if f.Unread() == 0 && f.UnknownSites() > 0 {
		return unknownLeft(f)
	}
	i := slices.IndexFunc(f.Passed, func(p contents.Passed) bool { return p.Unread })
	if i < 0 {
		return incompletef("if it holds archives or packages, unpack them first; see 'vfix help sources'",
			"%s: incomplete: %s", f.Name(), f.IncompleteText())
	}
	p := &f.Passed[i]
	hint := p.Hint
	if p.Denied {
		hint = cmp.Or(hint, "run vfix as root, or as a user who can read them")
	}
	hint = cmp.Or(hint, "'vfix scan --format json' lists them under not_examined; such a file may call the vsyscall page")
	return incompletef(hint, "%s: incomplete: %s: %s: %s", f.Name(), f.UnreadText(), p.Name(), p.Reason)
}

// unknownLeft is the finding that references cannot be judged.
func unknownLeft(f *contents.Findings) error {
	return incompletef("'vfix scan --explain' shows the code around them", "%s: incomplete: %s", f.Name(), f.UnknownText())
}

// unreadInList is the finding that images of a list were not examined whole.
func unreadInList(all []lists.Image) error {
	n := 0
	for _, i := range all {
		if i.Incomplete {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return incompletef(seeReasons, "incomplete: %s with parts that could not be examined", screen.Count(n, "image"))
}

// seeReasons is the hint for a list, whose table has only numbers.
const seeReasons = "run 'vfix scan IMAGE' to see them and the reasons"

// nothingToPatch says that there is no call site, in all of the source or in the part that could be read.
func nothingToPatch(f *contents.Findings, requested []find.Fix) string {
	what := "no call site to patch"
	if incomplete(f) != nil {
		what = "no call site in what was examined"
	}
	if len(requested) > 0 {
		what += ", and no file that --fix changes"
	}
	return "nothing to do: " + what
}

// leftOver is the finding of a verb that patches: the call sites that it had to leave.
func leftOver(typed string, f *contents.Findings) error {
	n := f.Uncovered()
	switch {
	case n == 0 && f.Complete() && f.UnknownSites() > 0:
		return unknownLeft(f)
	case n == 0:
		return nil
	}
	return finding("run "+quoted(explain(typed))+" to see the code around them", "%s: %s could not be patched", typed, screen.Count(n, openSite))
}
