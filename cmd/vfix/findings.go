// The call sites that are findings: how many there are, what covers them, and the error that reports them.

package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"vfix.dev/vfix/cmd/vfix/hints"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/rewriter/find"
)

// The commands that take what a packed file holds.
const scanIt, patchIt = "vfix scan", "vfix patch -i"

// uncoveredInAll counts the call sites that are findings in the images for all levels of x86-64 that a
// source has.
func uncoveredInAll(f *contents.Findings) int {
	n := 0
	for _, l := range f.All() {
		n += l.UncoveredSites()
	}
	return n
}

// incomplete is the finding that a source was not examined whole: it may have call sites that were not found.
// then is the command that takes what is in a packed file.
func incomplete(f *contents.Findings, then string) error {
	if f.Complete() {
		return nil
	}
	if missing := f.MissingLibraries(); len(missing) > 0 && f.Unread() == 0 {
		hint := "name the root filesystem that it runs in: 'vfix scan --root DIR " + quote.Path(f.Source) + "', where / is this machine"
		if f.Loads.Root == "" { // of a tarball
			hint = "unpack it on the machine that runs it: 'vfix scan DIR' also examines the libraries that its programs load from there"
		}
		return incompletef(hint,
			"%s: incomplete: the libraries that it loads were not examined: %s", f.Name(), strings.Join(missing, ", "))
	}
	i := slices.IndexFunc(f.Passed, func(p contents.Passed) bool { return p.Unread })
	if i < 0 {
		return incompletef(cmp.Or(f.Passed[0].Hint, unpack(f.Source, then), "name an ELF file, a directory, an archive or an image: see 'vfix help sources'"),
			"%s: incomplete: nothing examined: %s", f.Name(), f.Passed[0].Reason)
	}
	p := &f.Passed[i]
	hint := p.Hint
	if p.Path == f.Source {
		hint = cmp.Or(hint, unpack(f.Source, then))
	}
	if p.Denied {
		hint = cmp.Or(hint, "run vfix as root, or as a user who can read them")
	}
	hint = cmp.Or(hint, "the reasons are under NOT EXAMINED, in JSON under not_examined; such a file may call the vsyscall page")
	return incompletef(hint, "%s: incomplete: %s: %s: %s", f.Name(), f.UnreadText(), p.Name(), p.Reason)
}

// unpack is the hint about a source that is a packed file; a stream is gone.
func unpack(source, then string) string {
	if sources.ReadOnce(source) {
		return "if it is packed, save it as a file: 'vfix scan FILE' then prints the command that unpacks it"
	}
	return hints.Unpack(source, then)
}

// incompleteInAll is incomplete for the images for all levels of x86-64 that a source has.
func incompleteInAll(f *contents.Findings, then string) error {
	var errs []error
	for _, l := range f.All() {
		errs = append(errs, incomplete(l, then))
	}
	return errors.Join(errs...)
}

// unreadInList is the finding that images of a list were not examined whole.
func unreadInList(b *batch.Batch) error {
	if b.Unread == 0 {
		return nil
	}
	return incompletef(seeReasons, "incomplete: %s with paths or layers that could not be read", screen.Count(b.Unread, "image"))
}

// seeReasons is the hint for a list, whose table has only numbers.
const seeReasons = "run 'vfix scan IMAGE' to see them and the reasons"

// nothingToPatch says that there is no call site, in all of the source or in the part that could be read.
func nothingToPatch(f *contents.Findings, requested []find.Fix) string {
	what := "no call site to patch"
	if incompleteInAll(f, scanIt) != nil {
		what = "no call site in what was examined"
	}
	if len(requested) > 0 {
		what += ", and no file that --fix changes"
	}
	return "nothing to do: " + what
}

// leftOver is the finding of a verb that patches: the call sites that it had to leave.
func leftOver(f *contents.Findings) error {
	n := 0
	for _, l := range f.All() {
		n += l.Uncovered()
	}
	if n == 0 {
		return nil
	}
	return finding("the table gives the reasons; 'vfix scan --explain' shows the code around each of them",
		"%s: %s could not be patched", f.Source, screen.Count(n, tables.OpenSite))
}

// fixNames are those of the requested fixes that some file needs: a value of --fix, "" for none.
func fixNames(f *contents.Findings) string {
	var all []string
	for _, r := range tables.Fixed(f) {
		if name := string(r.Fix); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ",")
}
