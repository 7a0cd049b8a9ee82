// Names of images: what a derived image is called, and where it goes if the user named no place.

package source

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/textutil"
)

// BadName is the error about a text that is not the name of an image.
func BadName(s string, err error) error {
	return hinterr.Errorf(hinterr.ErrNotFound, "%q is not the name of an image: %v", s, err)
}

// sameImageName compares two tags as docker understands them: redis is docker.io/library/redis:latest.
func sameImageName(a, b string) bool {
	ta, errA := name.NewTag(a)
	tb, errB := name.NewTag(b)
	return a == b || errA == nil && errB == nil && ta.Name() == tb.Name()
}

// fullTag checks that s names an image by tag and gives it with its tag written out, but otherwise as it was typed:
// docker load needs NAME:TAG and shows what it got.
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

// HasTag reports whether a name without a digest has a tag: a colon after the last slash.
func HasTag(s string) bool { return strings.Contains(s[strings.LastIndex(s, "/")+1:], ":") }

// ResolveDest makes a DEST without a prefix one with a transport. A directory that is an OCI layout is one, also as
// DIR:TAG; for a file the user must say which of the two archives it becomes; anything else is the name of an image in
// the engine.
func ResolveDest(d Ref) (Ref, error) {
	if d.Transport != Plain {
		return d, nil
	}
	path, tag, _ := strings.Cut(d.Name, ":")
	if _, err := os.Stat(filepath.Join(path, layoutFile)); err == nil {
		return Ref{Transport: OCILayout, Name: path, Tag: tag}, nil
	}
	_, err := os.Stat(d.Name)
	if err == nil || LooksLikePath(d.Name) || strings.HasSuffix(d.Name, ".tar") {
		return d, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "%s: cannot tell the output format", d.Name),
			"-o %s:%s, or -o %s:%s for docker load", OCIArchive, d.Name, DockerArchive, d.Name)
	}
	return Ref{Transport: Daemon, Name: d.Name}, nil
}

// DefaultDest says where the derived image of src goes if the user named no place: the engine that answers (the one
// that src is from, if it is from one), under ResultName. Without an engine the error is an ErrNoDaemon and its hint says
// which -o to type.
func DefaultDest(ctx context.Context, src *Source, tag, suffix string, o Options) (Ref, error) {
	name, err := ResultName(src.Ref, tag, suffix)
	if err == nil && src.Ref.Transport == Plain {
		err = checkTarball(src)
	}
	if err != nil {
		return Ref{}, err
	}
	dest := Ref{Transport: Daemon, Name: name, Host: src.Ref.Host}
	return dest, hinterr.With(Ready(ctx, dest, o), "write it elsewhere: -o %s", FileDest(src.Ref))
}

// FileDest is the DEST that every verb proposes for a result if there is no engine: of the same format as the source.
// A docker archive gets a name by itself.
func FileDest(r Ref) Ref {
	switch r.Transport {
	case OCILayout:
		return Ref{Transport: OCILayout, Name: "fixed"}
	case DockerArchive:
		return Ref{Transport: DockerArchive, Name: "fixed.tar"}
	}
	return Ref{Transport: OCIArchive, Name: "fixed.tar"}
}

// ResultName makes a name for what is derived from a source. tag, which -t gives, is one, or without a colon and a slash
// another tag of the source's own name, as with copa. Without it redis:2.8.22 becomes redis:2.8.22-vfix with the suffix
// -vfix, and redis@sha256:… becomes redis:vfix. An image from a layout or an archive is called as its tag there says, or
// by the name of the file.
func ResultName(r Ref, tag, suffix string) (string, error) {
	if strings.ContainsAny(tag, ":/@") {
		return fullTag(tag)
	}
	own := r.Name
	if r.Transport != Daemon && r.Transport != Registry {
		if own = r.Tag; !strings.ContainsAny(own, ":/") {
			own = nameOfFile(r.Name)
			if r.Tag != "" {
				own += ":" + r.Tag
			}
		}
	}
	if id := strings.TrimPrefix(own, "sha256:"); imageID().MatchString(id) {
		if tag != "" {
			return fullTag(tag)
		}
		return "", hinterr.With(hinterr.Errorf(hinterr.ErrNotFound, "%s: an image ID gives no name for the result", own), "-t NAME:TAG")
	}
	base, digest, _ := strings.Cut(own, "@")
	full, err := fullTag(base)
	if err != nil {
		return "", hinterr.With(err, "-t NAME:TAG")
	}
	if tag == "" && (digest == "" || HasTag(base)) {
		return full + suffix, nil
	}
	return fullTag(full[:strings.LastIndex(full, ":")+1] + cmp.Or(tag, strings.TrimLeft(suffix, "-._")))
}

// imageID matches an image ID as docker shows it, short or whole; notInName what the name of an image cannot have.
var (
	imageID   = textutil.LazyRegexp(`^(?:[0-9a-f]{12}|[0-9a-f]{64})$`)
	notInName = textutil.LazyRegexp(`[^a-z0-9]+`)
)

// nameOfFile makes the name of an image from that of a file or directory.
func nameOfFile(path string) string {
	base := strings.ToLower(filepath.Base(path))
	for _, ext := range []string{".gz", ".tgz", ".zst", ".tar", ".oci"} {
		base = strings.TrimSuffix(base, ext)
	}
	return cmp.Or(strings.Trim(notInName().ReplaceAllString(base, "-"), "-"), "image")
}
