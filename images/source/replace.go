// Replacing one image in an index. All other entries keep their members, those that vfix does not know as well.

package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// ReplaceInIndex returns idx with the image that old describes replaced by img. Of old's entry only digest, size and
// media type change. buildkit's attestations about old, which are not about img, are omitted: Put notes that.
func ReplaceInIndex(idx v1.ImageIndex, old v1.Descriptor, img v1.Image) (v1.ImageIndex, error) {
	was, ok := idx.(*index)
	if !ok {
		return nil, fmt.Errorf("a %T is not the index of a source", idx)
	}
	text, err := parseIndex(was.raw)
	if err != nil {
		return nil, err
	}
	d, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	out := &index{from: was.from, desc: was.desc, imgDigest: d.Digest, img: img}
	found := false
	for _, e := range text.entries {
		if e.Digest == old.Digest {
			found = true
			// "data" is the old content itself (image-spec, descriptor.md).
			delete(e.members, "data")
			e.members.Set(map[string]any{"digest": d.Digest, "size": d.Size, "mediaType": d.MediaType})
		}
	}
	if !found {
		return nil, hinterr.Errorf(hinterr.ErrNotFound, "no manifest %v in the index", old.Digest)
	}
	text.keep(func(d v1.Descriptor) bool {
		about := isAttestation(d) && d.Annotations[AttestationSubject] == old.Digest.String()
		if about {
			out.omitted = append(out.omitted, d)
		}
		return !about
	})
	if out.raw, err = text.text(); err == nil {
		err = json.Unmarshal(out.raw, &out.parsed)
	}
	if err == nil {
		out.desc.Digest, out.desc.Size, err = v1.SHA256(bytes.NewReader(out.raw))
	}
	return out, err
}

// noteOmitted reports the attestations that ReplaceInIndex omitted.
func noteOmitted(idx v1.ImageIndex, p progress.Reporter) {
	if r, ok := idx.(*index); ok {
		for _, d := range r.omitted {
			p.Note("%s %v describes the image that was replaced: omitted", strings.ReplaceAll(d.Annotations[AttestationKey], "-", " "), d.Digest)
		}
	}
}

// indexText is the JSON of an index, of which single entries can be changed.
type indexText struct {
	members blob.Object
	entries []indexEntry
}

type indexEntry struct {
	v1.Descriptor
	members blob.Object
}

// parseIndex finds the entries of an index. It errs if "manifests" is missing, not a list, or there in two spellings:
// readers would disagree on which one counts.
func parseIndex(raw []byte) (*indexText, error) {
	t := &indexText{}
	if err := json.Unmarshal(raw, &t.members); err != nil {
		return nil, hinterr.Damaged("index: %v", err)
	}
	lists := 0
	for key := range t.members {
		if strings.EqualFold(key, "manifests") {
			lists++
		}
	}
	var all []json.RawMessage
	if err := json.Unmarshal(t.members["manifests"], &all); err != nil || lists != 1 {
		return nil, hinterr.Damaged("index: got %d lists of manifests, want 1", lists)
	}
	for n, raw := range all {
		var e indexEntry
		err := json.Unmarshal(raw, &e.Descriptor)
		if err == nil {
			err = json.Unmarshal(raw, &e.members)
		}
		if err != nil {
			return nil, hinterr.Damaged("index: entry %d: %v", n, err)
		}
		t.entries = append(t.entries, e)
	}
	return t, nil
}

// keep removes the entries for which f is false.
func (t *indexText) keep(f func(v1.Descriptor) bool) {
	t.entries = slices.DeleteFunc(t.entries, func(e indexEntry) bool { return !f(e.Descriptor) })
}

// add appends an entry.
func (t *indexText) add(d v1.Descriptor) error {
	text, err := json.Marshal(d)
	e := indexEntry{Descriptor: d}
	if err == nil {
		err = json.Unmarshal(text, &e.members)
	}
	t.entries = append(t.entries, e)
	return err
}

// text encodes the index. Equal indexes give equal bytes.
func (t *indexText) text() ([]byte, error) {
	all := []blob.Object{}
	for _, e := range t.entries {
		all = append(all, e.members)
	}
	t.members.Set(map[string]any{"manifests": all})
	return blob.EncodeJSON(t.members)
}
