// Parsing a SOURCE or DEST that a user typed.

package source

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

// Transport is the word before the colon of a SOURCE or DEST, as skopeo names them (containers-transports(5)).
type Transport string

// The transports. Plain is a single ELF file or a tarball; it has no prefix.
const (
	Daemon        Transport = "docker-daemon"
	Registry      Transport = "docker"
	DockerArchive Transport = "docker-archive"
	OCILayout     Transport = "oci"
	OCIArchive    Transport = "oci-archive"
	Dir           Transport = "dir"
	Plain         Transport = ""
)

// Stdin is the name of stdin: a SOURCE of its own, and a FILE after a prefix.
const Stdin = "-"

// aliases are the prefixes of other tools: syft's and docker scout's, and buildx's.
var aliases = map[string]Transport{"oci-dir": OCILayout, "oci-layout": OCILayout}

// Ref is a parsed SOURCE or DEST.
type Ref struct {
	Transport Transport
	Name      string // image name with its tag or digest for Daemon and Registry; else a path
	Tag       string // the part after a path: docker-archive:FILE:REF, oci:DIR:TAG
	Guessed   bool   // no prefix was given
	Host      string // of Daemon: the address of the engine that has the image; "" for the first that answers
}

// ParseRef parses a SOURCE or DEST. It accesses no files. The forms are skopeo's: docker-daemon:REF, docker://REF,
// docker-archive:FILE[:REF], oci:DIR[:TAG], oci-archive:FILE[:TAG], dir:ROOTFS. A text without one of these prefixes
// is a Guessed Plain ref. It errors if nothing follows the prefix, and for prefixes that vfix does not support.
func ParseRef(s string) (Ref, error) {
	if s == "" {
		return Ref{}, hinterr.Errorf(hinterr.ErrNotFound, "an empty name is neither a file nor an image")
	}
	guessed := Ref{Name: s, Guessed: true}
	prefix, rest, found := strings.Cut(s, ":")
	if !found {
		return guessed, nil
	}
	bare, isURL := strings.CutPrefix(rest, "//")
	t := Transport(prefix)
	if alias, ok := aliases[prefix]; ok {
		t, rest = alias, bare
	}
	var r Ref
	switch t {
	case Registry:
		if !isURL { // docker:27-cli is an image of that name
			return guessed, nil
		}
		r = Ref{Transport: t, Name: bare}
	case Daemon, Dir:
		r = Ref{Transport: t, Name: rest}
	case DockerArchive, OCILayout, OCIArchive:
		path, tag, _ := strings.Cut(rest, ":")
		r = Ref{Transport: t, Name: path, Tag: tag}
	default:
		if isURL {
			return Ref{}, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "unknown prefix %s://", prefix), "'vfix help sources' lists the prefixes")
		}
		return guessed, nil
	}
	if r.Name == "" {
		return Ref{}, hinterr.Errorf(hinterr.ErrNotFound, "%s: no name after the prefix", s)
	}
	return r, nil
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

// LooksLikePath reports whether a name can only be a path: image names begin with a lower case letter or a digit.
func LooksLikePath(s string) bool { return strings.IndexAny(s, "/.~") == 0 }

// BaseName is the name of the base that is recorded in the derived image: never a path of the machine that made it,
// which would make equal images differ.
func BaseName(r Ref) string {
	switch r.Transport {
	case Daemon, Registry:
		return r.Name
	}
	return cmp.Or(r.Tag, filepath.Base(r.Name))
}

// isLayout reports whether images there are in an OCI layout, in a directory or a tarball.
func (r Ref) isLayout() bool { return r.Transport == OCILayout || r.Transport == OCIArchive }

// HasManifests reports whether images have manifests of their own there, and not only a config.
func (r Ref) HasManifests() bool { return r.Transport != Daemon && r.Transport != DockerArchive }
