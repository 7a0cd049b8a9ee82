package images

import (
	"maps"
	"slices"
	"strings"
)

// Marks: xattrs that vouch for a file's content. A patched file has another content, and
// with the old mark a kernel that appraises would refuse it; a mark of vfix's own would
// vouch for what its owner has not seen.

// isMark reports whether an xattr vouches for the content of its file.
//
//   - security.ima: IMA's hash or signature; security.evm: EVM's, which covers the former
//     (Linux, include/uapi/linux/xattr.h).
//   - overlayfs keeps the fs-verity digest of a file in its metacopy xattr (Linux,
//     fs/overlayfs/overlayfs.h, struct ovl_metacopy; the user. name is of mounts with
//     userxattr).
//   - fs-verity itself is a flag of the inode, which no archive carries; tools keep its
//     signatures in xattrs with the word verity in their names.
func isMark(name string) bool {
	switch name {
	case "security.ima", "security.evm", "trusted.overlay.metacopy", "user.overlay.metacopy":
		return true
	}
	return strings.Contains(name, "verity")
}

// marks lists those among a file's xattrs, sorted.
func marks(xattrs map[string]string) []string {
	var all []string
	for name := range xattrs {
		if isMark(name) {
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
	maps.DeleteFunc(u.xattrs, func(name, _ string) bool { return isMark(name) })
	return &u
}
