package images

import (
	"maps"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/filemarks"
)

// marks lists those among a file's xattrs, sorted.
func marks(xattrs map[string]string) []string {
	var all []string
	for name := range xattrs {
		if filemarks.Is(name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// warnDropped tells of marks that a patched file on disk does not carry on.
func (h *hit) warnDropped(dropped []string) {
	if len(dropped) > 0 {
		h.plan.Warnings = append(h.plan.Warnings, markWarning(dropped))
	}
}

func markWarning(dropped []string) string {
	return strings.Join(dropped, ", ") + " dropped: it vouches for the content before; where the kernel appraises files, sign the patched one"
}

// unmarked is the metadata of a file whose content changed.
func (m *meta) unmarked() *meta {
	if len(marks(m.xattrs)) == 0 {
		return m
	}
	u := *m
	u.xattrs = maps.Clone(m.xattrs)
	maps.DeleteFunc(u.xattrs, func(name, _ string) bool { return filemarks.Is(name) })
	return &u
}
