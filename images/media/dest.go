// Where an image goes: a DEST without a prefix, and default names for derived images.

package media

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/lazy"
)

// ResolveDest makes a DEST without a prefix one with a transport. A directory that is an OCI layout is one; what looks
// like a file must say which of the two archives it becomes; anything else is the name of an image in the daemon.
func ResolveDest(d Ref) (Ref, error) {
	if d.Transport != Plain {
		return d, nil
	}
	if _, err := os.Stat(filepath.Join(d.Name, LayoutFile)); err == nil {
		return Ref{Transport: OCILayout, Name: d.Name}, nil
	}
	_, err := os.Stat(d.Name)
	if err == nil || LooksLikePath(d.Name) || strings.HasSuffix(d.Name, ".tar") {
		return d, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: cannot tell the output format", d.Name),
			"-o oci-archive:%s, or -o docker-archive:%s for docker load", d.Name, d.Name)
	}
	return Ref{Transport: Daemon, Name: d.Name}, nil
}

// DefaultDest says where the derived image of src goes if the user named no place: the
// daemon that answers (the one that src is from, if it is from one), under tag, or if
// that is "", under the source's own name with the suffix after its tag: redis:2.8.22
// becomes redis:2.8.22-vfix. A name with a digest alone gets the suffix as its tag, without
// the hyphen: redis@sha256:… becomes redis:vfix. An image from a layout or an archive is
// called as its tag there says, or by the name of the file or directory. Without a daemon the
// error is an ErrNoDaemon and its hint says which -o to type.
func DefaultDest(ctx context.Context, src *Source, tag, suffix string, o Options) (Ref, error) {
	o = o.WithDefaults()
	if tag == "" {
		var err error
		if tag, err = DefaultName(src.Ref, suffix); err != nil {
			return Ref{}, err
		}
	} else {
		tag = Renamed(src.Ref, tag)
	}
	tag, err := fullTag(tag)
	if err != nil {
		return Ref{}, err
	}
	dest := Ref{Transport: Daemon, Name: tag, Podman: src.Ref.Podman}
	err = EachDaemon(ctx, src.Ref.Where(), o, func(c *engine.Client) (bool, error) {
		dest.Host = c.Host
		return true, nil
	})
	if err != nil {
		file := fileName(tag)
		return Ref{}, hinterr.With(err, "write a file: -o oci-archive:%s.tar, or -o docker-archive:%s.tar:%s for docker load", file, file, tag)
	}
	return dest, nil
}

// Renamed is the name that -t gives to what is derived from a source: a name, or, without a colon and a slash, another
// tag of the source's own name, as with copa.
func Renamed(r Ref, tag string) string {
	if strings.ContainsAny(tag, ":/@") {
		return tag
	}
	base, err := DefaultName(r, "")
	if err != nil {
		return tag
	}
	return base[:strings.LastIndex(base, ":")+1] + tag
}

// DefaultName makes a name for what is derived from a source.
func DefaultName(r Ref, suffix string) (string, error) {
	typed := r.Name
	if r.Transport != Daemon && r.Transport != Registry {
		if typed = r.Tag; typed == "" || !strings.ContainsAny(typed, ":/") {
			typed = nameOfFile(r.Name)
			if r.Tag != "" {
				typed += ":" + r.Tag
			}
		}
	}
	if id := strings.TrimPrefix(typed, "sha256:"); imageID().MatchString(id) {
		return "", hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%s: an image ID gives no name for the result", typed), "-t NAME:TAG")
	}
	base, digest, _ := strings.Cut(typed, "@")
	if digest != "" && !HasTag(base) {
		return base + ":" + strings.TrimLeft(suffix, "-._"), nil
	}
	t, err := name.NewTag(base)
	if err != nil {
		return "", hinterr.With(BadName(typed, err), "-t NAME:TAG")
	}
	if !HasTag(base) {
		base += ":" + t.TagStr()
	}
	return base + suffix, nil
}

// imageID matches an image ID as docker shows it, short or whole.
var imageID = lazy.Regexp(`^(?:[0-9a-f]{12}|[0-9a-f]{64})$`)

// HasTag reports whether a name without a digest has a tag: a colon after the last slash.
func HasTag(s string) bool { return strings.Contains(s[strings.LastIndex(s, "/")+1:], ":") }

// nameOfFile makes the name of an image from that of a file or directory: lower case, without
// the extensions, and without what the name of an image cannot have (distribution,
// reference/regexp.go).
func nameOfFile(path string) string {
	base := strings.ToLower(filepath.Base(path))
	for _, ext := range []string{".gz", ".tgz", ".zst", ".tar", ".oci"} {
		base = strings.TrimSuffix(base, ext)
	}
	return cmp.Or(strings.Trim(notInName().ReplaceAllString(base, "-"), "-"), "image")
}

var notInName = lazy.Regexp(`[^a-z0-9]+`)

// fileName makes the name of a file from that of an image: redis:2.8-vfix is redis-2.8-vfix.
func fileName(tag string) string {
	return strings.ReplaceAll(tag[strings.LastIndex(tag, "/")+1:], ":", "-")
}
