// The statement of provenance: what a rebuild did to every file, in a form that other people's tools read and that
// anybody can check with a hash function. The envelope is an in-toto Statement v1 (github.com/in-toto/attestation,
// spec/v1/statement.md); the predicate is vfix's own and described in docs/security.md. cosign or oras attach it to an
// image.
//
// It is encoded by encoding/json from the types below: fields in their order, nothing that depends on time or place.

package images

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/rewriter/patch"
)

const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://vfix.dev/provenance/v1"
)

// statement is an in-toto Statement v1 with vfix's predicate.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []artifact `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

// artifact is in-toto's ResourceDescriptor, as far as it is used: a name and digests by algorithm, in hex.
type artifact struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	Version string          `json:"vfixVersion"`
	Options string          `json:"options"` // as in the label
	Base    statedBase      `json:"base"`
	Derived statedDerived   `json:"derived"`
	Files   []statedFile    `json:"files"`
	Added   []statedContent `json:"added"` // files that the base does not have
}

// statedBase is the image that was read; Layers are the diff IDs, the base layer first.
type statedBase struct {
	artifact
	Layers []string `json:"layers"`
}

// statedDerived is what is the same of the result wherever it is stored.
type statedDerived struct {
	Config     map[string]string `json:"config"` // digest of the image config: the image ID
	AddedLayer string            `json:"addedLayer"`
	Traced     bool              `json:"entrypointWrapped"`
}

// statedContent is a file that only the result has; Link is set for a symlink.
type statedContent struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	Link   string `json:"link,omitempty"`
}

// statedFile is one patched file. Before with all Sites and Edits applied and the appended bytes after it is After.
type statedFile struct {
	Path     string           `json:"path"`
	Before   blob.StatedBytes `json:"before"`
	After    blob.StatedBytes `json:"after"`
	Links    []string         `json:"links"`
	Layer    string           `json:"layer"` // diff ID of the layer that it comes from
	Sites    []statedSite     `json:"sites"`
	Edits    []statedEdit     `json:"edits"`
	Appended blob.StatedBytes `json:"appended"`      // the bytes after the old end
	Dropped  []string         `json:"droppedXattrs"` // they vouched for the old content
}

// statedSite is one call site that was rewritten.
type statedSite struct {
	Vaddr    string `json:"vaddr"`
	Function string `json:"function"`
	Symbol   string `json:"symbol,omitempty"`
	Form     string `json:"form"`
	statedRun
}

// statedEdit is one run of bytes that changed beside the call sites: a field of a header.
type statedEdit struct {
	What string `json:"what"`
	statedRun
}

// statedRun is a run of bytes at an offset of the file, in hex, before and after.
type statedRun struct {
	Offset uint64 `json:"offset"`
	Before string `json:"before"`
	After  string `json:"after"`
}

func digestSet(h v1.Hash) map[string]string { return map[string]string{h.Algorithm: h.Hex} }

// writeStatement writes the statement about the derived image, which is stored at dest.
func (d *derivation) writeStatement(w io.Writer, dest source.Ref, o RebuildOptions) error {
	p, err := d.predicate()
	if err != nil {
		return err
	}
	s := statement{Type: statementType, PredicateType: predicateType, Predicate: p, Subject: []artifact{}}
	if stored, err := v1.NewHash(d.out.Digest); err == nil { // a root filesystem has none
		s.Subject = append(s.Subject, artifact{source.BaseName(dest), digestSet(stored)})
	}
	raw, err := jsonobject.Encode(s)
	if err == nil {
		_, err = w.Write(raw)
	}
	return err
}

func (d *derivation) predicate() (predicate, error) {
	base, err := v1.NewHash(d.origin.baseDigest)
	if err != nil {
		return predicate{}, fmt.Errorf("base: %w", err)
	}
	config, err := d.img.ConfigName()
	if err != nil {
		return predicate{}, err
	}
	doc := predicate{
		Version: d.origin.version, Options: d.origin.options,
		Base:    statedBase{artifact{d.origin.baseName, digestSet(base)}, []string{}},
		Derived: statedDerived{digestSet(config), d.added.PlainDigest.String(), d.changes.traced},
		Files:   []statedFile{}, Added: []statedContent{},
	}
	layers := d.sub.T.Layers
	for _, l := range layers {
		doc.Base.Layers = append(doc.Base.Layers, l.DiffID.String())
	}
	for i := range d.changes.targets {
		h := &d.changes.targets[i]
		f, err := stateFile(h, layers[h.Layer].DiffID.String())
		if err != nil {
			return doc, fmt.Errorf("%s: %w", h.Names[0], err)
		}
		doc.Files = append(doc.Files, f)
	}
	for _, e := range d.changes.extras {
		doc.Added = append(doc.Added, stateExtra(e))
	}
	return doc, nil
}

// stateFile describes the changes of a plan to a file.
func stateFile(h *contents.Target, layer string) (f statedFile, err error) {
	f = statedFile{
		Path: h.Names[0], Links: append([]string{}, h.Names[1:]...), Layer: layer,
		Sites: []statedSite{}, Edits: []statedEdit{}, Dropped: append([]string{}, contents.Marks(h.Meta.Xattrs)...),
	}
	before := h.ELF.Content
	if f.Before, err = blob.HashOf(io.NewSectionReader(before, 0, before.Size())); err != nil {
		return f, err
	}
	whole, tail := blob.NewSum(), blob.NewSum()
	patched := h.Plan.Apply(before)
	if _, err := io.CopyN(whole, patched, before.Size()); err != nil {
		return f, err
	}
	if _, err := io.Copy(io.MultiWriter(whole, tail), patched); err != nil {
		return f, err
	}
	f.After, f.Appended = whole.Stated(), tail.Stated()
	at := map[uint64]bool{}
	for _, p := range h.Plan.Patches {
		if p.Form == patch.Left {
			continue
		}
		at[p.Offset] = true
		f.Sites = append(f.Sites, statedSite{
			Vaddr: fmt.Sprintf("%#x", p.Site.Vaddr), Function: p.Site.Function.String(), Symbol: p.Site.Symbol,
			Form: p.Form.String(), statedRun: stateRun(p.Offset, p.Before, p.After),
		})
	}
	for _, e := range h.Plan.Edits {
		if !at[e.Offset] {
			f.Edits = append(f.Edits, statedEdit{e.Why, stateRun(e.Offset, e.Old, e.New)})
		}
	}
	return f, nil
}

func stateRun(offset uint64, before, after []byte) statedRun {
	return statedRun{offset, hex.EncodeToString(before), hex.EncodeToString(after)}
}

// stateExtra describes a file that is not in the base.
func stateExtra(e contents.Extra) statedContent {
	if e.Link != "" || strings.HasSuffix(e.Name, "/") {
		return statedContent{Path: e.Name, Link: e.Link}
	}
	sum, _ := blob.HashOf(bytes.NewReader(e.Body))
	return statedContent{Path: e.Name, SHA256: sum.SHA256}
}
