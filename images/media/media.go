// Shared by all media: transports, references, options, sources and results.

package media

import (
	"cmp"
	"context"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/progress"
)

// Transport is the word before the colon of a SOURCE or DEST, as skopeo names them.
type Transport string

// The transports. Plain is a single ELF file or a tarball; it has no prefix.
const (
	Daemon        Transport = "docker-daemon"
	Registry      Transport = "docker"
	DockerArchive Transport = "docker-archive"
	OCILayout     Transport = "oci"
	OCIArchive    Transport = "oci-archive"
	Dir           Transport = "dir"
	SIF           Transport = "sif"
	Plain         Transport = ""
)

// Ref is a parsed SOURCE or DEST.
type Ref struct {
	Transport Transport
	Name      string // image name with its tag or digest for Daemon and Registry; else a path
	Tag       string // the part after a path: docker-archive:FILE:REF, oci:DIR:TAG
	// Guessed says that no prefix was given.
	Guessed bool
	Podman  bool // of Daemon: podman's alone

	Host string // of a daemon that was found by asking around, "" for the usual one
}

// Options are the options for reading and writing images.
type Options struct {
	Platform v1.Platform // default linux/amd64
	// EveryLevel says that of an index all images for linux/amd64 are meant, whatever level of
	// x86-64 they are for; so it is without a named platform.
	EveryLevel bool
	registry.Options
	Net *registry.Network // what one command shares; nil until withDefaults
}

// WithDefaults fills in what a caller may leave out.
func (o Options) WithDefaults() Options {
	o.EveryLevel = o.EveryLevel || o.Platform.OS == "" && o.Platform.Architecture == ""
	o.Platform.OS = cmp.Or(o.Platform.OS, "linux")
	o.Platform.Architecture = cmp.Or(o.Platform.Architecture, "amd64")
	o.UserAgent = cmp.Or(o.UserAgent, "vfix")
	if o.Progress == nil {
		o.Progress = progress.Silent{}
	}
	if o.Stall <= 0 {
		o.Stall = registry.DefaultStall
	}
	if o.Retry.Tries == 0 {
		o.Retry = registry.DefaultRetry
	}
	if o.Net == nil {
		o.Net = registry.NewNetwork(o.Options)
	}
	return o
}

// Source is an opened SOURCE: exactly one of Image and Path is set.
type Source struct {
	Ref   Ref      // resolved: never Guessed
	Image v1.Image // the platform's image, nil for directories and files
	// Index is what Image was chosen from, nil where the source is a single image.
	Index v1.ImageIndex
	// Entry is Image's descriptor in Index, or in an index in Index, with the platform of its config if that has none.
	Entry v1.Descriptor
	// Levels are the other images for linux/amd64 in Index, where all are meant.
	Levels []*Source
	// Digest is what the source itself calls the image: the digest of its manifest or
	// index in a registry or layout, the image ID in a daemon or docker archive (whose
	// manifest vfix makes up); "" for directories and files.
	Digest string
	Path   string // of a root filesystem directory or a file
	// Made says that vfix made the image's manifest: the source has another one, which
	// Digest names, or none.
	Made bool
	// Schema1 says that the source has a manifest of schema 1.
	Schema1 bool
	// Beside names parts of the source that are not in Image and are not examined, such as an overlay.
	Beside []string
	// Keep makes layers read from a registry stay until Close, as they will be needed again; nil: the
	// layers are local.
	Keep  func()
	atEnd []func() error
}

// AtEnd adds what Close calls, in this order.
func (s *Source) AtEnd(f func() error) { s.atEnd = append(s.atEnd, f) }

// Close ends all access to Image and removes temporary files.
func (s *Source) Close() (err error) {
	for _, f := range s.atEnd {
		err = cmp.Or(err, f())
	}
	return err
}

// Title is a path for messages: that of what was read from stdin is a temporary file.
func (s *Source) Title() string {
	if s.Ref.Name == Stdin {
		return "stdin"
	}
	return s.Path
}

// Result is the thing to write: an image, or an index with one image replaced.
type Result struct {
	// Image is always set: a daemon and a docker archive hold no index and take it alone.
	Image v1.Image
	Index v1.ImageIndex // nil: a single image
	// Source is where the image, or its base, comes from.
	Source Ref

	// Statement is the statement about it; nil: nothing.
	Statement ResultStatement
}

// ResultStatement is the statement about a result, and learns its place.
type ResultStatement interface {
	// Beside calls write to write an archive or layout, and puts the statement beside it: once the result
	// has its name, only a rename can fail.
	Beside(dest Ref, r Result, st Stored, write func() error) error
	// Note remembers the digest of a result that has no statement beside it.
	Note(st Stored) error
	// Push calls write to push a result, then pushes its statement, and gives it the tag last.
	Push(ctx context.Context, dest Ref, tag name.Tag, r Result, write func(name.Reference) error, o Options) error
}

// stated calls write to write a result, with the statement about it beside it.
func (r Result) stated(dest Ref, st Stored, write func() error) error {
	if r.Statement == nil {
		return write()
	}
	return r.Statement.Beside(dest, r, st, write)
}

// pushStated calls write to push a result under a tag, with the statement about it.
func (r Result) pushStated(ctx context.Context, dest Ref, tag name.Tag, write func(name.Reference) error, o Options) error {
	if r.Statement == nil {
		return write(tag)
	}
	return r.Statement.Push(ctx, dest, tag, r, write, o)
}

// Stored is what Put wrote.
type Stored struct {
	// Reference names the result in a form that is good to run, pull or open: with its
	// digest in a registry (HOST/NAME:TAG@sha256:…), without one elsewhere.
	Reference string
	// Digest is that of the manifest, or index, as it was written. In a daemon or docker
	// archive it is the image ID; "" for a root filesystem.
	Digest string
	// Warnings say what the result lacks, one line each, for people.
	Warnings []string
}
