// Taking apart a SOURCE or DEST that a user typed.

package media

import (
	"fmt"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

// ParseRef takes apart what a user typed. It looks at no file. The forms are skopeo's
// (containers-transports(5)): docker-daemon:REF, docker://REF, docker-archive:FILE[:REF],
// oci:DIR[:TAG], oci-archive:FILE[:TAG], dir:ROOTFS. Whatever has none of these prefixes
// is a Guessed Plain ref. It errors where nothing is behind the prefix, and for transports
// of skopeo's that vfix has not.
//
// A letter, a colon and a slash of either kind are a Windows path, wherever a path may
// stand; the colon between a path and its tag is the first one after that.
func ParseRef(s string) (Ref, error) {
	if s == "" {
		return Ref{}, hinterr.Errorf(hinterr.ErrNotFound, "an empty name is neither a file nor an image")
	}
	prefix, rest, found := strings.Cut(s, ":")
	if !found || drivePath(s) {
		return Ref{Transport: Plain, Name: s, Guessed: true}, nil
	}
	var r Ref
	switch Transport(prefix) {
	case Registry:
		// docker:27-cli is an image of that name; only docker:// is the transport.
		if !strings.HasPrefix(rest, "//") {
			return Ref{Transport: Plain, Name: s, Guessed: true}, nil
		}
		r = Ref{Transport: Registry, Name: rest[2:]}
	case Daemon:
		r = Ref{Transport: Daemon, Name: rest}
	case DockerArchive, OCILayout, OCIArchive:
		path, tag := splitPath(rest)
		r = Ref{Transport: Transport(prefix), Name: path, Tag: tag}
	case Dir, SIF:
		r = Ref{Transport: Transport(prefix), Name: rest}
	case "containers-storage", "ostree", "tarball", "docker-storage", "containerd":
		return Ref{}, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: the transport %s: is not supported", s, prefix),
			"copy it first: skopeo copy %s oci:DIR", s)
	default:
		if strings.HasPrefix(rest, "//") {
			return Ref{}, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: %s:// is no transport", s, prefix),
				"for an image in a registry write docker://%s", strings.TrimPrefix(rest, "//"))
		}
		return Ref{Transport: Plain, Name: s, Guessed: true}, nil
	}
	if r.Name == "" {
		return Ref{}, hinterr.Errorf(hinterr.ErrNotFound, "%s: no name after the prefix", s)
	}
	return r, nil
}

// drivePath reports whether s begins as a path on a Windows drive does.
func drivePath(s string) bool {
	return len(s) >= 3 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') &&
		(s[0]|0x20) >= 'a' && (s[0]|0x20) <= 'z'
}

// splitPath takes PATH[:TAG] apart.
func splitPath(s string) (path, tag string) {
	drive := ""
	if drivePath(s) {
		drive, s = s[:2], s[2:]
	}
	path, tag, _ = strings.Cut(s, ":")
	return drive + path, tag
}

// LooksLikePath reports whether a name can only have been meant as a path: image names
// begin with a lower case letter or a digit and have no backslash.
func LooksLikePath(s string) bool {
	return drivePath(s) || strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") ||
		strings.HasPrefix(s, "~") || strings.ContainsRune(s, '\\')
}

// String gives the ref as a user would type it, with its prefix.
func (r Ref) String() string {
	switch r.Transport {
	case Plain:
		return r.Name
	case Registry:
		return "docker://" + r.Name
	}
	s := fmt.Sprintf("%s:%s", r.Transport, r.Name)
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	return s
}

// BaseName is the name of the base that is recorded in the derived image: never a path of
// the machine that made it, which would make equal images differ.
func BaseName(r Ref) string {
	switch r.Transport {
	case Daemon, Registry:
		return r.Name
	}
	if r.Tag != "" {
		return r.Tag
	}
	return filepath.Base(r.Name)
}
