package images

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
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
func (r *rebuild) prove(img *derivedImage, t *merged, hits []hit, extras []extra) (*proof, error) {
	if r.o.Provenance == "" || r.o.Provenance == ProvenanceNone || r.o.DryRun {
		return nil, nil
	}
	p := &proof{doc: ProvenanceDoc{
		Version: r.o.Version, Files: []StatedFile{}, Added: []StatedContent{}, Databases: []StatedChange{},
	}}
	if r.o.Provenance != ProvenanceAuto {
		p.file = r.o.Provenance
	}
	base, err := v1.NewHash(r.out.BaseDigest)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	p.doc.Base = StatedBase{Artifact: Artifact{Name: r.out.BaseName, Digest: digestSet(base)}, Layers: []string{}}
	for _, l := range t.layers {
		p.doc.Base.Layers = append(p.doc.Base.Layers, l.diffID.String())
	}
	config, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	p.doc.Derived = StatedDerived{Config: digestSet(config), AddedLayer: img.added.diffID.String(), Traced: img.from.traced}
	for i := range hits {
		h := &hits[i]
		f, err := stateFile(h, t.layers[h.layer].diffID.String(), h.elf.content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.names[0], err)
		}
		p.doc.Files = append(p.doc.Files, f)
	}
	for _, e := range extras {
		if e.was == nil {
			p.doc.Added = append(p.doc.Added, stateExtra(e))
			continue
		}
		is, _ := hashOf(bytes.NewReader(e.body))
		p.doc.Databases = append(p.doc.Databases, StatedChange{e.name, *e.was, is})
	}
	slices.SortFunc(p.doc.Added, func(a, b StatedContent) int { return strings.Compare(a.Path, b.Path) })
	return p, nil
}

// packages finds the records that package databases have of the patched files, and returns
// the databases that are to be corrected.
func (r *rebuild) packages(ctx context.Context, t *merged, hits []hit) ([]extra, error) {
	files, corrected, err := dpkgRecords(ctx, r.s, t, hits)
	if err != nil {
		return nil, err
	}
	if r.o.UpdateDpkg {
		for i := range files {
			files[i].Corrected = !files[i].Stale
		}
	} else {
		corrected = nil
	}
	rpm, err := rpmRecords(ctx, r.s, t, hits)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		r.out.Warnings = append(r.out.Warnings, fmt.Sprintf("whether rpm has digests of the patched files could not be found out: %v", err))
	}
	r.out.Packages = append(files, rpm...)
	return corrected, nil
}

// warnMarks tells of xattrs that the patched files lose.
func (r *rebuild) warnMarks(hits []hit) {
	for _, h := range hits {
		if all := marks(h.meta.xattrs); len(all) > 0 {
			r.out.Warnings = append(r.out.Warnings, h.names[0]+": "+markWarning(all))
		}
	}
}

// tell puts what became of the statement into the result.
func (r *rebuild) tell(p *proof) {
	if p == nil {
		return
	}
	r.out.Provenance = p.stored
	r.out.Warnings = append(r.out.Warnings, p.warnings...)
}
