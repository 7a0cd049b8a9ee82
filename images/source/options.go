// Options, an opened source, and a result to write.

package source

import (
	"cmp"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/progress"
)

// Options are the options for reading and writing images.
type Options struct {
	Platform  v1.Platform // default linux/amd64
	Insecure  bool        // allow plain HTTP and unverified TLS
	Progress  progress.Reporter
	UserAgent string
	Stall     time.Duration // the time after which a request without progress ends; 0 for the default
	Pause     time.Duration // the pause after the first try of a request; 0 for the default
	Net       *Network      // what one command shares; nil until WithDefaults
}

// Defaults of Options: a registry has stored a manifest, or answers, in seconds; in the pauses of 1, 2 and 4 s an
// instance of it is replaced.
const (
	DefaultStall = 30 * time.Second
	DefaultPause = time.Second
)

// WithDefaults fills in what a caller may leave out.
func (o Options) WithDefaults() Options {
	o.Platform.OS = cmp.Or(o.Platform.OS, "linux")
	o.Platform.Architecture = cmp.Or(o.Platform.Architecture, "amd64")
	o.UserAgent = cmp.Or(o.UserAgent, "vfix")
	o.Stall = cmp.Or(o.Stall, DefaultStall)
	o.Pause = cmp.Or(o.Pause, DefaultPause)
	if o.Progress == nil {
		o.Progress = progress.Silent{}
	}
	if o.Net == nil {
		o.Net = &Network{o: o}
	}
	return o
}

// Source is an opened SOURCE: exactly one of Image and Path is set.
type Source struct {
	Ref   Ref      // resolved: never Guessed
	Image v1.Image // the platform's image; nil for directories and files
	// Index is what Image was chosen from; nil if the source is a single image.
	Index v1.ImageIndex
	// Entry is Image's descriptor in Index.
	Entry v1.Descriptor
	// Digest is what the source itself calls the image: the digest of its manifest or index in a registry or layout,
	// the image ID in an engine or docker archive; "" for directories and files.
	Digest string
	// Schema1 says that the source has a manifest of schema 1, which Digest names: vfix made another one.
	Schema1 bool
	Path    string // of a root filesystem directory or a file

	// keep makes layers of a registry stay on disk until Close, as they will be read again; nil: they are local.
	keep  func()
	atEnd []func() error
}

// Keep says that the layers will be read more than once: those of a registry are fetched once.
func (s *Source) Keep() {
	if s.keep != nil {
		s.keep()
	}
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

// Title is the name of the source for messages, with its prefix and tag.
func (s *Source) Title() string {
	if s.Ref.Name == Stdin {
		return "stdin"
	}
	return s.Ref.String()
}

// Result is the thing to write: an image, or an index with one image replaced.
type Result struct {
	Image v1.Image      // always set: an engine and a docker archive hold no index and take it alone
	Index v1.ImageIndex // nil: a single image
	// Source is where the image, or its base, comes from: a docker archive gets a name after it.
	Source Ref
}

// Stored is what Put wrote.
type Stored struct {
	// Reference names the result in a form that is good to run, pull or open: with its digest in a registry
	// (HOST/NAME:TAG@sha256:…), without one elsewhere.
	Reference string
	// Digest is that of the manifest, or index, as it was written. In an engine or docker archive it is the image
	// ID; "" for a root filesystem.
	Digest string
	// Warnings say what the result lacks, one line each.
	Warnings []string
}
