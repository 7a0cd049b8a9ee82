// The statement of provenance: what a rebuild did to every file, in a form that other
// people's tools find and that anybody can check with a hash function. The envelope is an
// in-toto Statement v1 (github.com/in-toto/attestation, spec/v1/statement.md); what it
// states is vfix's own and described in docs/security.md.
//
// It is encoded by encoding/json from the types below: fields in their order, nothing that
// depends on time or place. in-toto's own Go types are protobuf, whose JSON form promises
// no stable bytes; a test reads with them what is written here.

package provenance

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/rewriter/patch"
)

const (
	statementType = "https://in-toto.io/Statement/v1"
	// PredicateType is what the statement calls its predicate.
	PredicateType = "https://vfix.dev/provenance/v1"
	// maxStatement is the largest statement that is read, in bytes. One of an image with
	// 290 call sites has 200 KB.
	maxStatement = 64 << 20
)

// Statement is an in-toto Statement v1 with vfix's predicate.
type Statement struct {
	Type          string     `json:"_type"`
	Subject       []Artifact `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     Predicate  `json:"predicate"`
}

// Members are the keys of a Statement.
var Members = []string{"_type", "subject", "predicateType", "predicate"}

// Artifact is in-toto's ResourceDescriptor, as far as it is used: a name and digests by
// algorithm, in hex without a prefix.
type Artifact struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// Predicate is the predicate.
type Predicate struct {
	Version string          `json:"vfixVersion"`
	Base    StatedBase      `json:"base"`
	Derived StatedDerived   `json:"derived"`
	Files   []StatedFile    `json:"files"`
	Added   []StatedContent `json:"added"`
	// Databases are the package databases that were corrected.
	Databases []StatedChange `json:"packageDatabases"`
}

// StatedBase is the image that was read.
type StatedBase struct {
	Artifact
	// Layers are the diff IDs, the base layer first.
	Layers []string `json:"layers"`
}

// StatedDerived is what is the same of the result wherever it is stored.
type StatedDerived struct {
	Config     map[string]string `json:"config"` // digest of the image config: the image ID
	AddedLayer string            `json:"addedLayer"`
	Traced     bool              `json:"entrypointWrapped"`
}

// StatedContent is a file that only the result has; Link is set for a symlink.
type StatedContent struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	Link   string `json:"link,omitempty"`
}

// StatedChange is one file before and after.
type StatedChange struct {
	Path   string           `json:"path"`
	Before blob.StatedBytes `json:"before"`
	After  blob.StatedBytes `json:"after"`
}

// StatedFile is one patched file. Before with all Sites and Edits applied and the appended
// bytes after it is After.
type StatedFile struct {
	StatedChange
	Links []string     `json:"links"`
	Layer string       `json:"layer"` // diff ID of the layer that it comes from
	Sites []StatedSite `json:"sites"`
	Edits []StatedEdit `json:"edits"`
	// Appended are the bytes after the old end: padding, the injected segment, and the
	// section header table with one entry more.
	Appended blob.StatedBytes `json:"appended"`
	// Dropped are the xattrs that the result does not keep: they vouched for the old
	// content.
	Dropped []string `json:"droppedXattrs"`
}

// StatedSite is one call site that was rewritten.
type StatedSite struct {
	Vaddr    string `json:"vaddr"`
	Function string `json:"function"`
	Symbol   string `json:"symbol,omitempty"`
	Form     string `json:"form"`
	StatedRun
}

// StatedEdit is one run of bytes that changed beside the call sites: a field of a header.
type StatedEdit struct {
	What string `json:"what"`
	StatedRun
}

// StatedRun is a run of bytes at an offset of the file, in hex, before and after.
type StatedRun struct {
	Offset uint64 `json:"offset"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Encode gives the statement's bytes.
func (s *Statement) Encode() ([]byte, error) { return jsonobject.Encode(s) }

// parseStatement reads a statement of vfix's. The error says what else it is.
func parseStatement(raw []byte) (*Statement, error) {
	var s Statement
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, hinterr.Damaged("statement: %v", err)
	}
	switch {
	case s.Type != statementType:
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "statement: got type %q, want %q", s.Type, statementType)
	case s.PredicateType != PredicateType:
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "statement: got predicate type %q, want %q", s.PredicateType, PredicateType)
	}
	return &s, nil
}

// DigestSet is in-toto's way to write a digest.
func DigestSet(h v1.Hash) map[string]string { return map[string]string{h.Algorithm: h.Hex} }

// HasSubject reports whether the statement is about one of these digests.
func (s *Statement) HasSubject(digests []v1.Hash) bool {
	return slices.ContainsFunc(s.Subject, func(a Artifact) bool { return a.Is(digests) })
}

// Is reports whether the artifact has one of these digests.
func (a Artifact) Is(digests []v1.Hash) bool {
	return slices.ContainsFunc(digests, func(d v1.Hash) bool { return d.Hex != "" && a.Digest[d.Algorithm] == d.Hex })
}

// StateFile describes the changes of a plan to a file with the content before.
func StateFile(h *contents.Target, layer string, before *io.SectionReader) (StatedFile, error) {
	f := StatedFile{
		StatedChange: StatedChange{Path: h.Names[0]},
		Links:        append([]string{}, h.Names[1:]...), Layer: layer,
		Sites: []StatedSite{}, Edits: []StatedEdit{}, Dropped: append([]string{}, contents.Marks(h.Meta.Xattrs)...),
	}
	was, err := blob.HashOf(io.NewSectionReader(before, 0, before.Size()))
	if err != nil {
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
	f.Before, f.After, f.Appended = was, whole.Stated(), tail.Stated()
	f.Sites, f.Edits = stateChanges(h.Plan.Patches, h.Plan.Edits)
	return f, nil
}

// stateChanges describes what changes in place.
func stateChanges(patches []patch.Patch, changed []patch.Edit) ([]StatedSite, []StatedEdit) {
	sites, edits := []StatedSite{}, []StatedEdit{}
	at := map[uint64]bool{}
	for _, p := range patches {
		if p.Form == patch.Left {
			continue
		}
		at[p.Offset] = true
		sites = append(sites, StatedSite{
			Vaddr: fmt.Sprintf("%#x", p.Site.Vaddr), Function: p.Site.Function.String(), Symbol: p.Site.Symbol,
			Form: p.Form.String(), StatedRun: stateRun(p.Offset, p.Before, p.After),
		})
	}
	for _, e := range changed {
		if !at[e.Offset] {
			edits = append(edits, StatedEdit{e.Why, stateRun(e.Offset, e.Old, e.New)})
		}
	}
	return sites, edits
}

func stateRun(offset uint64, before, after []byte) StatedRun {
	return StatedRun{Offset: offset, Before: hex.EncodeToString(before), After: hex.EncodeToString(after)}
}

// StateExtra describes a file that is not in the base.
func StateExtra(e contents.Extra) StatedContent {
	if e.Link != "" {
		return StatedContent{Path: e.Name, Link: e.Link}
	}
	sum, _ := blob.HashOf(bytes.NewReader(e.Body))
	return StatedContent{Path: e.Name, SHA256: sum.SHA256}
}
