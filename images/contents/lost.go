// The losses of copied files: metadata that only root may set, and marks that vouch for the old content.

package contents

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/filemarks"
)

// Loss is metadata that a file lost: its kind, or the name of an xattr, and its value if that is reported.
type Loss struct{ Kind, Value string }

// The kinds that callers check for.
const (
	LostOwner = "owner"
	LostGroup = "group" // but not its user
)

func (l Loss) String() string { return strings.TrimSpace(l.Kind + " " + l.Value) }

// Lost collects the owners and attributes of files that their copies do not have because the caller is not root.
type Lost struct {
	files int
	name  string         // of the first one
	what  []string       // of the first one
	kinds []string       // in the order of their first loss
	count map[string]int // files, by kind
}

// Add notes the losses of one file, if any.
func (l *Lost) Add(name string, what []Loss) {
	if len(what) == 0 {
		return
	}
	if l.files++; l.files == 1 {
		l.name, l.count = name, map[string]int{}
	}
	for _, w := range what {
		if l.files == 1 {
			l.what = append(l.what, w.String())
		}
		if l.count[w.Kind]++; l.count[w.Kind] == 1 {
			l.kinds = append(l.kinds, w.Kind)
		}
	}
}

// Warning returns a line for users, "" if nothing was lost.
func (l *Lost) Warning() string {
	first := strings.Join(l.what, ", ")
	switch l.files {
	case 0:
		return ""
	case 1:
		whose := ""
		if l.count[LostOwner] > 0 {
			whose = "the copy is yours: "
		}
		return fmt.Sprintf("%s: %snot kept: %s (needs root)", l.name, whose, first)
	}
	all := make([]string, len(l.kinds))
	for i, kind := range l.kinds {
		all[i] = fmt.Sprintf("%s of %d", kind, l.count[kind])
	}
	whose := ""
	if l.count[LostOwner] > 0 {
		whose = "the copies are yours: "
	}
	return fmt.Sprintf("%snot kept for %d files: %s (needs root); the first is %s: %s",
		whose, l.files, strings.Join(all, ", "), l.name, first)
}

// Marks returns the names of the xattrs that vouch for a file's content, sorted; a patched copy does not keep
// them.
func Marks(xattrs map[string]string) []string {
	var all []string
	for name := range xattrs {
		if filemarks.Is(name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// Dropped returns the marks that a patched copy of an open file does not keep.
func (m *Meta) Dropped(f *os.File) []string {
	all := Marks(m.Xattrs)
	if hasVerity(f) {
		all = append(all, "fs-verity")
	}
	return all
}

// WarnDropped warns about marks that a patched file on disk does not keep.
func (h *Target) WarnDropped(dropped []string) {
	if len(dropped) > 0 {
		h.Plan.Warnings = append(h.Plan.Warnings, MarkWarning(dropped))
	}
}

// MarkWarning returns the warning about marks that a patched file does not keep.
func MarkWarning(dropped []string) string {
	return strings.Join(dropped, ", ") + " dropped: it vouches for the content before; where the kernel appraises files, sign the patched one"
}

// Unmarked returns the metadata of a file after a change of its content.
func (m *Meta) Unmarked() *Meta {
	if len(Marks(m.Xattrs)) == 0 {
		return m
	}
	u := *m
	u.Xattrs = maps.Clone(m.Xattrs)
	maps.DeleteFunc(u.Xattrs, func(name, _ string) bool { return filemarks.Is(name) })
	return &u
}

// Unmarked returns the entry of a file after a change of its content.
func (e *Entry) Unmarked() *Entry {
	u := *e
	u.Meta = *e.Meta.Unmarked()
	return &u
}
