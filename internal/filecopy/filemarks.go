// Knows the marks of a file: extended attributes that vouch for its content,
// or tie it to another file. A patched file has another content. With an old mark, a kernel that appraises
// files would reject it, and a mark by vfix would vouch for content that the owner has not seen. So patched
// copies have none.

package filecopy

import "strings"

// IsMark reports whether an extended attribute is a mark.
//
//   - security.ima: IMA's hash or signature; security.evm: EVM's, which covers the former
//     (Linux, include/uapi/linux/xattr.h).
//   - trusted.overlay.*, and user.overlay.* of mounts with userxattr: overlayfs keeps there the
//     fs-verity digest of a file (metacopy) and the file that it was copied up from (origin);
//     neither is valid for another file (Linux, Documentation/filesystems/overlayfs.rst).
//   - trusted.vfix.*: marks a file that vfix wrote.
//   - fs-verity itself is a flag of the inode, which no copy and no archive carries; tools keep
//     its signatures in extended attributes with the word verity in their names.
func IsMark(xattr string) bool {
	switch {
	case xattr == "security.ima", xattr == "security.evm":
		return true
	case strings.HasPrefix(xattr, "trusted.vfix."), strings.HasPrefix(xattr, "trusted.overlay."), strings.HasPrefix(xattr, "user.overlay."):
		return true
	}
	return strings.Contains(xattr, "verity")
}
