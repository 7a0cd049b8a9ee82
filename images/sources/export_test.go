package sources

import (
	"context"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/progress"
)

// What only the tests of this package see.

const (
	SIFDescriptorLen = sifDescriptorLen
	SIFMagicAt       = sifMagicAt
	SIFTotalAt       = sifTotalAt
	SquashBlockAt    = squashBlockAt
	SquashCompressAt = squashCompressAt
	SquashMagic      = squashMagic
	SquashSuperLen   = squashSuperLen
)

type (
	SIFFile = sifFile
)

var (
	LoadSIF   = loadSIF
	MergeTars = mergeTars
)

// Flatten gives the tar stream that a squashfs is made of, and what is said of it.
func Flatten(ctx context.Context, t *contents.Tree, img v1.Image, extras []contents.Extra, w io.Writer) ([]string, error) {
	f := &flattening{tree: t, image: img, extras: extras, progress: progress.Silent{}}
	err := f.write(ctx, w)
	return f.warnings(), err
}
