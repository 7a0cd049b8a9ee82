package sources

import (
	"context"
	"io"

	"vfix.dev/vfix/images/contents"
)

// For the tests of this package alone.

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
	LoadSIF = loadSIF
)

// Flatten returns the tar stream for a squashfs, and the messages about it.
func Flatten(ctx context.Context, t *contents.Tree, extras []contents.Extra, w io.Writer) ([]string, error) {
	f := &flattening{tree: t, extras: extras}
	err := f.write(ctx, w)
	return f.warnings(), err
}
