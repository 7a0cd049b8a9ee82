// Parsing a SOURCE or DEST that a user typed.

package media

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/quote"
)

// Stdin is the name of stdin: a SOURCE of its own, and a FILE after a prefix.
const Stdin = "-"

// aliases are prefixes of other tools: syft's and docker scout's, buildx's, and Singularity's own name.
var aliases = map[string]Transport{"oci-dir": OCILayout, "oci-layout": OCILayout, "singularity": SIF, "apptainer": SIF}

// podmanPrefix names an image of podman, as syft and trivy do.
const podmanPrefix = "podman"

// Prefixes are those that ParseRef knows, and that of a container.
var Prefixes = []string{
	"docker://", string(Daemon) + ":", podmanPrefix + ":", string(DockerArchive) + ":", string(OCILayout) + ":", string(OCIArchive) + ":",
	string(Dir) + ":", string(SIF) + ":", "container:",
}

// ParseRef parses a SOURCE or DEST. It accesses no files. The forms are skopeo's
// (containers-transports(5)): docker-daemon:REF, docker://REF, docker-archive:FILE[:REF],
// oci:DIR[:TAG], oci-archive:FILE[:TAG], dir:ROOTFS. Whatever has none of these prefixes
// is a Guessed Plain ref. It errors if nothing follows the prefix, and for transports
// that vfix lacks.
//
// A letter, a colon and a slash of either kind are a Windows path, wherever a path may
// occur; the colon between a path and its tag is the first one after that.
func ParseRef(s string) (Ref, error) {
	if s == "" {
		return Ref{}, hinterr.Errorf(hinterr.ErrNotFound, "an empty name is neither a file nor an image")
	}
	prefix, rest, found := strings.Cut(s, ":")
	if !found || drivePath(s) {
		return Ref{Transport: Plain, Name: s, Guessed: true}, nil
	}
	bare := strings.TrimPrefix(rest, "//") // podman://NAME, a form of other tools
	t := Transport(prefix)
	if alias, ok := aliases[prefix]; ok {
		t, rest = alias, bare
	}
	var r Ref
	switch t {
	case Registry:
		// docker:27-cli is an image of that name; only docker:// is the transport.
		if !strings.HasPrefix(rest, "//") {
			return Ref{Transport: Plain, Name: s, Guessed: true}, nil
		}
		r = Ref{Transport: Registry, Name: bare}
	case Daemon:
		r = Ref{Transport: Daemon, Name: bare}
	case podmanPrefix:
		r = Ref{Transport: Daemon, Name: bare, Podman: true}
	case DockerArchive, OCILayout, OCIArchive:
		path, tag := splitPath(rest)
		r = Ref{Transport: t, Name: path, Tag: tag}
	case Dir, SIF:
		r = Ref{Transport: t, Name: rest}
	case "containerd", "nerdctl", "cri", "containers-storage", "crio", "ostree", "tarball", "docker-storage":
		return Ref{}, &StoreError{prefix, bare}
	default:
		if strings.HasPrefix(rest, "//") {
			return Ref{}, unknownPrefix(prefix, bare)
		}
		return Ref{Transport: Plain, Name: s, Guessed: true}, nil
	}
	if r.Name == "" {
		return Ref{}, hinterr.Errorf(hinterr.ErrNotFound, "%s: no name after the prefix", s)
	}
	return r, nil
}

// store is an image store that vfix does not read or write: what exports an image from it to stdout, and what imports a file.
type store struct{ export, load string }

var (
	ofContainerd = store{"ctr -n k8s.io images export --platform linux/amd64 - %s", "ctr -n k8s.io images import image.tar"}
	ofLibpod     = store{"podman save %s", "podman load -i image.tar"}
	stores       = map[string]store{
		"containerd": ofContainerd, "cri": ofContainerd, "nerdctl": {"nerdctl save %s", "nerdctl load -i image.tar"}, "containers-storage": ofLibpod, "crio": ofLibpod,
	}
)

// StoreError is a prefix of a store that vfix does not read or write.
type StoreError struct{ prefix, image string }

func (e *StoreError) Error() string {
	return fmt.Sprintf("%s:%s: vfix does not read or write the store of %s", e.prefix, e.image, e.prefix)
}

func (e *StoreError) Unwrap() error { return hinterr.ErrUnsupported }

// Hint is how an image gets out of the store.
func (e *StoreError) Hint() string {
	s, ok := stores[e.prefix]
	if !ok {
		return fmt.Sprintf("export it: 'skopeo copy %s:%s oci-archive:image.tar', then 'vfix scan image.tar'", e.prefix, quote.Path(e.image))
	}
	image, more := e.image, ""
	if s == ofContainerd {
		if t, err := name.ParseReference(image); err == nil {
			image = strings.Replace(t.Name(), name.DefaultRegistry, "docker.io", 1)
		}
		more = " (k8s.io is the namespace of pods, default that of ctr and nerdctl)"
	}
	return fmt.Sprintf("pipe it: '"+s.export+" | vfix scan -'%s; 'vfix rebuild - -o oci-archive:FILE' reads it the same way", quote.Path(image), more)
}

// LoadHint is how a result gets into the store.
func (e *StoreError) LoadHint() string {
	load := "skopeo copy oci-archive:image.tar " + e.prefix + ":" + quote.Path(e.image)
	if s, ok := stores[e.prefix]; ok {
		load = s.load
	}
	return "write a file: -o oci-archive:image.tar, then '" + load + "'"
}

// unknownPrefix is the error about an unknown prefix with two slashes.
func unknownPrefix(prefix, rest string) error {
	err := hinterr.Errorf(hinterr.ErrUnsupported, "unknown prefix %s://; supported: %s", prefix, strings.Join(Prefixes, ", "))
	if like := likePrefix(prefix); like != "" {
		return hinterr.With(err, "did you mean %s%s?", like, quote.Path(rest))
	}
	return hinterr.With(err, "for an image in a registry write docker://%s", quote.Path(rest))
}

// drivePath reports whether s begins as a path on a Windows drive does.
func drivePath(s string) bool {
	return len(s) >= 3 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') &&
		(s[0]|0x20) >= 'a' && (s[0]|0x20) <= 'z'
}

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
	switch {
	case r.Transport == Plain:
		return r.Name
	case r.Transport == Registry:
		return "docker://" + r.Name
	case r.Podman:
		return podmanPrefix + ":" + r.Name
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
	return cmp.Or(r.Tag, filepath.Base(r.Name))
}

// HasManifests reports whether images have manifests of their own there, and not only a config.
func (r Ref) HasManifests() bool { return r.Transport != Daemon && r.Transport != DockerArchive }

// Where is the daemon of a ref, for EachDaemon.
func (r Ref) Where() string {
	if r.Host == "" && r.Podman {
		return anyPodman
	}
	return r.Host
}

// Image names as docker understands them.

// sameImageName compares two tags as docker understands them: redis is
// docker.io/library/redis:latest.
func sameImageName(a, b string) bool {
	if a == b {
		return true
	}
	ta, errA := name.NewTag(a)
	tb, errB := name.NewTag(b)
	return errA == nil && errB == nil && ta.Name() == tb.Name()
}

// fullTag checks that s names an image by tag and gives it with its tag written out, but
// otherwise as it was typed: docker load needs NAME:TAG and shows what it got.
func fullTag(s string) (string, error) {
	t, err := name.NewTag(s)
	if err != nil {
		return "", BadName(s, err)
	}
	if !strings.HasSuffix(s, ":"+t.TagStr()) {
		s += ":" + t.TagStr()
	}
	return s, nil
}

// BadName words go-containerregistry's complaint about a name.
func BadName(s string, err error) error {
	return hinterr.Errorf(hinterr.ErrNotFound, "%q is not the name of an image: %v", s, err)
}
