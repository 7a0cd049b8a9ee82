// The xattrs of a file that vouch for its content (marks), which a patched copy does not carry
// on.

package contents

import (
	"maps"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/filemarks"
)

// Marks lists those among a file's xattrs, sorted.
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

// WarnDropped tells of marks that a patched file on disk does not carry on.
func (h *Target) WarnDropped(dropped []string) {
	if len(dropped) > 0 {
		h.Plan.Warnings = append(h.Plan.Warnings, MarkWarning(dropped))
	}
}

// MarkWarning is the warning about marks that a patched file does not carry on.
func MarkWarning(dropped []string) string {
	return strings.Join(dropped, ", ") + " dropped: it vouches for the content before; where the kernel appraises files, sign the patched one"
}

// Unmarked is the metadata of a file whose content changed.
func (m *Meta) Unmarked() *Meta {
	if len(Marks(m.Xattrs)) == 0 {
		return m
	}
	u := *m
	u.Xattrs = maps.Clone(m.Xattrs)
	maps.DeleteFunc(u.Xattrs, func(name, _ string) bool { return filemarks.Is(name) })
	return &u
}

// Unmarked is the entry of a file whose content changed.
func (e *Entry) Unmarked() *Entry {
	u := *e
	u.Meta = *e.Meta.Unmarked()
	return &u
}
