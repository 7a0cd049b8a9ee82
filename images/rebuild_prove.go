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

// prove states what the derived image is: nil where nobody wants to know.
func (r *rebuild) prove(img *derivedImage, t *contents.Tree, targets []contents.Target, extras []contents.Extra) (*provenance.Proof, error) {
	if r.o.Provenance == "" || r.o.Provenance == ProvenanceNone || r.o.DryRun {
		return nil, nil
	}
	p := &provenance.Proof{Doc: provenance.Predicate{
		Version: r.o.Version, Files: []provenance.StatedFile{}, Added: []provenance.StatedContent{}, Databases: []provenance.StatedChange{},
	}}
	if r.o.Provenance != ProvenanceAuto {
		p.File = r.o.Provenance
	}
	base, err := v1.NewHash(r.out.BaseDigest)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	p.Doc.Base = provenance.StatedBase{Artifact: provenance.Artifact{Name: r.out.BaseName, Digest: provenance.DigestSet(base)}, Layers: []string{}}
	for _, l := range t.Layers {
		p.Doc.Base.Layers = append(p.Doc.Base.Layers, l.DiffID.String())
	}
	config, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	p.Doc.Derived = provenance.StatedDerived{Config: provenance.DigestSet(config), AddedLayer: img.added.PlainDigest.String(), Traced: img.from.Traced}
	for i := range targets {
		h := &targets[i]
		f, err := provenance.StateFile(h, t.Layers[h.Layer].DiffID.String(), h.ELF.Content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Names[0], err)
		}
		p.Doc.Files = append(p.Doc.Files, f)
	}
	for _, e := range extras {
		if e.Was == nil {
			p.Doc.Added = append(p.Doc.Added, provenance.StateExtra(e))
			continue
		}
		is, _ := blob.HashOf(bytes.NewReader(e.Body))
		p.Doc.Databases = append(p.Doc.Databases, provenance.StatedChange{Path: e.Name, Before: *e.Was, After: is})
	}
	slices.SortFunc(p.Doc.Added, func(a, b provenance.StatedContent) int { return strings.Compare(a.Path, b.Path) })
	return p, nil
}

// tell puts what became of the statement into the result.
func (r *rebuild) tell(p *provenance.Proof) {
	if p == nil {
		return
	}
	r.out.Provenance = p.Stored
	r.out.Warnings = append(r.out.Warnings, p.Warnings...)
}
