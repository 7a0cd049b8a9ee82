package sources

import (
	"context"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
)

// For the tests of this package alone.

const (
	MaxSIFObjects    = maxSIFObjects
	SIFDescriptorLen = sifDescriptorLen
	SIFHeaderLen     = sifHeaderLen
	SIFMagicAt       = sifMagicAt
	SIFTotalAt       = sifTotalAt
	SquashBlockAt    = squashBlockAt
	SquashCompressAt = squashCompressAt
	SquashMagic      = squashMagic
	SquashSuperLen   = squashSuperLen
	SquashTimeAt     = squashTimeAt
)

type (
	SIFFile = sifFile
)

var (
	ImageEnv  = imageEnv
	LoadSIF   = loadSIF
	Runscript = runscript
)

// ApptainerFiles returns the files for a merged file system, and the metadata.
func ApptainerFiles(t *contents.Tree, cf *v1.ConfigFile, like contents.Meta) ([]contents.Extra, []byte, error) {
	a, err := newApptainerFiles(t, cf, "definition\n", `{"a":"b"}`, like)
	if err != nil {
		return nil, nil, err
	}
	return a.extras, a.metadata, nil
}

// Flatten returns the tar stream for a squashfs, and the messages about it.
func Flatten(ctx context.Context, t *contents.Tree, extras []contents.Extra, w io.Writer) ([]string, error) {
	f := &flattening{tree: t, extras: extras}
	err := f.write(ctx, w)
	return f.warnings(), err
}
