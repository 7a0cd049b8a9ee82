// The statement of provenance that a rebuild makes.

package images

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/provenance"
)

// The words of --provenance. Anything else is the name of a file.
const (
	// ProvenanceAuto attaches the statement to what is pushed and writes it beside an
	// archive or layout.
	ProvenanceAuto = "auto"
	// ProvenanceNone makes none.
	ProvenanceNone = "none"
)

// prove makes the statement about the derived image; where is the value of --provenance.
func prove(img *derivedImage, t *contents.Tree, c *changes, where string) (*provenance.Proof, error) {
	p := &provenance.Proof{}
	if where != ProvenanceAuto {
		p.File = where
	}
	config, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	p.Doc, err = c.state(t, img.from, config, img.added.PlainDigest)
	return p, err
}

// state is the predicate of the statement about what was made of an image.
func (c *changes) state(t *contents.Tree, from derivation, config, added v1.Hash) (provenance.Predicate, error) {
	base, err := v1.NewHash(from.BaseDigest)
	if err != nil {
		return provenance.Predicate{}, fmt.Errorf("base: %w", err)
	}
	doc := provenance.Predicate{
		Version: from.Version,
		Base:    provenance.StatedBase{Artifact: provenance.Artifact{Name: from.BaseName, Digest: provenance.DigestSet(base)}, Layers: []string{}},
		Derived: provenance.StatedDerived{Config: provenance.DigestSet(config), AddedLayer: added.String(), Traced: from.Traced},
		Files:   []provenance.StatedFile{}, Added: []provenance.StatedContent{}, Databases: []provenance.StatedChange{},
	}
	for _, l := range t.Layers {
		doc.Base.Layers = append(doc.Base.Layers, l.DiffID.String())
	}
	for i := range c.targets {
		h := &c.targets[i]
		f, err := provenance.StateFile(h, t.Layers[h.Layer].DiffID.String(), h.ELF.Content)
		if err != nil {
			return doc, fmt.Errorf("%s: %w", h.Names[0], err)
		}
		doc.Files = append(doc.Files, f)
	}
	for _, e := range c.extras {
		if e.Was == nil {
			doc.Added = append(doc.Added, provenance.StateExtra(e))
			continue
		}
		is, _ := blob.HashOf(bytes.NewReader(e.Body))
		doc.Databases = append(doc.Databases, provenance.StatedChange{Path: e.Name, Before: *e.Was, After: is})
	}
	slices.SortFunc(doc.Added, func(a, b provenance.StatedContent) int { return strings.Compare(a.Path, b.Path) })
	return doc, nil
}
