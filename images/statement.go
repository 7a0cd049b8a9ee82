// The statement of provenance: what a rebuild did to every file, in a form that other people's tools read and that
// anybody can check with a hash function; 'vfix verify --against' compares the bytes. The envelope is an in-toto Statement v1 (github.com/in-toto/attestation,
// spec/v1/statement.md); the predicate is vfix's own and described in docs/security.md. cosign or oras attach it to an
// image.
//
// It is encoded by encoding/json from the types below: fields in their order, nothing that depends on time or place.

package images

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/source"
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
	Version string `json:"vfixVersion"`
	Options string `json:"options"` // as in the label
	Base    struct {
		artifact
		Layers []string `json:"layers"` // diff IDs, the base layer first
	} `json:"base"`
	// Derived is what is the same of the result wherever it is stored.
	Derived struct {
		Config     map[string]string `json:"config"` // digest of the image config: the image ID
		AddedLayer string            `json:"addedLayer"`
		Traced     bool              `json:"entrypointWrapped"`
	} `json:"derived"`
	Files []statedFile    `json:"files"`
	Added []statedContent `json:"added"` // files that the base does not have
}

// statedContent is a file that only the result has; Link is set for a symlink.
type statedContent struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
	Link   string `json:"link,omitempty"`
}

// statedFile is one patched file.
type statedFile struct {
	Path    string      `json:"path"`
	Before  statedBytes `json:"before"`
	After   statedBytes `json:"after"`
	Links   []string    `json:"links"`
	Layer   string      `json:"layer"`         // diff ID of the layer that it comes from
	Dropped []string    `json:"droppedXattrs"` // they vouched for the old content
}

// statedBytes is one content: its size in bytes and its SHA-256 in hex.
type statedBytes struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func stateBytes(r io.Reader) (statedBytes, error) {
	sum, size, err := v1.SHA256(r)
	return statedBytes{size, sum.Hex}, err
}

func digestSet(h v1.Hash) map[string]string { return map[string]string{h.Algorithm: h.Hex} }

// writeStatement writes the statement about the derived image, which is stored.
func (j *Job) writeStatement(w io.Writer) error {
	base, err := v1.NewHash(j.origin.baseDigest)
	config, cerr := j.img.ConfigName()
	if err := cmp.Or(err, cerr); err != nil {
		return err
	}
	p := predicate{Version: j.origin.version, Options: j.origin.options, Files: []statedFile{}, Added: []statedContent{}}
	p.Base.artifact, p.Base.Layers = artifact{j.origin.baseName, digestSet(base)}, []string{}
	p.Derived.Config, p.Derived.AddedLayer, p.Derived.Traced = digestSet(config), j.added.PlainDigest.String(), j.changes.traced
	for _, l := range j.out.Findings.Tree.Layers {
		p.Base.Layers = append(p.Base.Layers, l.DiffID)
	}
	for i := range j.changes.targets {
		h := &j.changes.targets[i]
		content := h.ELF.Content
		before, err := stateBytes(io.NewSectionReader(content, 0, content.Size()))
		after, afterErr := stateBytes(h.Plan.Apply(content))
		if err := cmp.Or(err, afterErr); err != nil {
			return fmt.Errorf("%s: %w", h.Path, err)
		}
		p.Files = append(p.Files, statedFile{
			Path: h.Path, Before: before, After: after, Layer: h.Layer,
			Links: append([]string{}, h.Links...), Dropped: append([]string{}, h.Marks()...),
		})
	}
	for _, e := range j.changes.extras {
		added := statedContent{Path: e.Name, Link: e.Link}
		if e.Link == "" {
			added.SHA256 = fmt.Sprintf("%x", sha256.Sum256(e.Body))
		}
		p.Added = append(p.Added, added)
	}
	s := statement{Type: statementType, PredicateType: predicateType, Predicate: p, Subject: []artifact{}}
	if stored, err := v1.NewHash(j.out.Digest); err == nil { // a root filesystem has none
		s.Subject = append(s.Subject, artifact{source.BaseName(*j.dest), digestSet(stored)})
	}
	raw, err := blob.EncodeJSON(s)
	if err == nil {
		_, err = w.Write(raw)
	}
	return err
}
