package images

import (
	"context"
	"errors"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Transport is the word before the colon of a SOURCE or DEST, as skopeo names them.
type Transport string

// The transports. File is a single ELF file or a tarball of one; it has no prefix.
const (
	Daemon        Transport = "docker-daemon"
	Registry      Transport = "docker"
	DockerArchive Transport = "docker-archive"
	OCILayout     Transport = "oci"
	OCIArchive    Transport = "oci-archive"
	Dir           Transport = "dir"
	Plain         Transport = ""
)

// Ref is a SOURCE or DEST as a user types it, taken apart.
type Ref struct {
	Transport Transport
	Name      string // image name with its tag or digest for Daemon and Registry; else a path
	Tag       string // the part behind a path: docker-archive:FILE:REF, oci:DIR:TAG
	// Guessed says that no prefix was given.
	Guessed bool
}

// MediaOptions are what reading and writing images needs to know.
type MediaOptions struct {
	Platform  v1.Platform // default linux/amd64
	Insecure  bool        // plain HTTP and unverified TLS allowed
	Progress  Progress
	UserAgent string
}

// Source is an opened SOURCE: exactly one of Image and Path is set.
type Source struct {
	Ref   Ref      // resolved: never Guessed
	Image v1.Image // the platform's image, nil for folders and files
	// Index is what Image was chosen from, nil where the source is a single image.
	Index v1.ImageIndex
	// Entry is Image's descriptor in Index.
	Entry v1.Descriptor
	Path  string // of a root filesystem folder or a file
	Close func() error
}

// Result is what is to be written: an image, or an index with one image replaced.
type Result struct {
	Image v1.Image
	Index v1.ImageIndex // nil: a single image
}

// ParseRef takes apart what a user typed. It looks at no file.
func ParseRef(s string) (Ref, error) { return Ref{}, errors.New("TODO") }

// Open resolves and opens a SOURCE. A name without a prefix is a path where one exists
// (recognised by content), else an image in the local daemon, else one in its registry.
func Open(ctx context.Context, source string, o MediaOptions) (*Source, error) {
	return nil, errors.New("TODO")
}

// DefaultDest says where the derived image of src goes where the user named no place: the
// daemon, if one answers, under the source's name with the suffix after its tag. Without a
// daemon the error says which -o to type.
func DefaultDest(ctx context.Context, src *Source, tag, suffix string, o MediaOptions) (Ref, error) {
	return Ref{}, errors.New("TODO")
}

// Store writes a result under dest, whole or not at all, and returns the reference that
// names it, with its digest where the medium has digests.
func Store(ctx context.Context, dest Ref, r Result, o MediaOptions) (string, error) {
	return "", errors.New("TODO")
}
