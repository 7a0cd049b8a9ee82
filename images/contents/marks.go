// What the metadata of a file says about its content: marks vouch for it, and a patched copy does not keep them;
// privileges change how a program runs.

package contents

import (
	"maps"
	"os"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/filecopy"
)

// Marks returns the names of the xattrs that vouch for a file's content, sorted.
func Marks(xattrs map[string]string) []string {
	return slices.DeleteFunc(SortedKeys(xattrs), func(name string) bool { return !filecopy.IsMark(name) })
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
	u := *m
	u.Xattrs = maps.Clone(m.Xattrs)
	maps.DeleteFunc(u.Xattrs, func(name, _ string) bool { return filecopy.IsMark(name) })
	return &u
}

// Unmarked returns the entry of a file after a change of its content.
func (e *Entry) Unmarked() *Entry {
	u := *e
	u.Meta = *e.Meta.Unmarked()
	return &u
}

// losesVDSO reports whether a program with this metadata may not find the vDSO: the loader of a program that gains
// privileges rewrites its environment, and runtimes of Go before 1.16 then read another auxiliary vector.
func (m *Meta) losesVDSO() bool {
	const setuid = 0o4000
	return m.Mode&setuid != 0 && m.UID != 0 || m.Xattrs[capability] != ""
}

// LosesVDSO is losesVDSO for an open file.
func LosesVDSO(f *os.File) bool {
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	m := DiskMeta(fi)
	m.Xattrs, _ = FileXattrs(f)
	return m.losesVDSO()
}
