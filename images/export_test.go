package images

import (
	"context"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
)

// For the tests of this package alone.

const (
	DropInTag     = dropInTag
	KeyBaseDigest = keyBaseDigest
	KeyBaseName   = keyBaseName
	KeyVersion    = keyVersion
)

type (
	Derivation = derivation
)

// VerifyPair compares a source with what vfix makes of its base, or with a statement alone.
func VerifyPair(ctx context.Context, base, src *media.Source, stated *provenance.Stated, o VerifyOptions) (*Verified, error) {
	return (&comparison{o: o, stated: stated}).pair(ctx, base, src)
}

// VerifyTexts compares two JSON objects.
func VerifyTexts(want, got string, except ...string) ([]string, error) {
	v := &Verified{}
	err := v.texts("t", []byte(want), []byte(got), except...)
	return v.Problems, err
}

var (
	Derive     = derive
	EditConfig = editConfig
)

var (
	Destinations  = destinations
	PushName      = pushName
	BaseReference = baseReference
	Elsewhere     = elsewhere
)
