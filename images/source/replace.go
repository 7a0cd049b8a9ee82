// Replacing one image in an index. All other entries keep their members, those that vfix does not know as well.

package source

import (
	"bytes"
	"encoding/json"
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
	raw, err := idx.RawManifest()
	if err != nil {
		return nil, err
	}
	text, err := parseIndex(raw)
	if err != nil {
		return nil, err
	}
	d, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	out := &replacedIndex{imageIndex: idx, digest: d.Digest, img: img}
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
	out.raw, err = text.text()
	return out, err
}

// noteOmitted reports the attestations that ReplaceInIndex omitted.
func noteOmitted(idx v1.ImageIndex, p progress.Reporter) {
	if r, ok := idx.(*replacedIndex); ok {
		for _, d := range r.omitted {
			p.Note("%s %v describes the image that was replaced: omitted", strings.ReplaceAll(d.Annotations[AttestationKey], "-", " "), d.Digest)
		}
	}
}

// imageIndex has a name that is not that of one of its methods, to be embedded.
type imageIndex interface{ v1.ImageIndex }

// replacedIndex is an index with one image replaced. It implements v1.ImageIndex.
type replacedIndex struct {
	imageIndex
	raw     []byte
	digest  v1.Hash // of img
	img     v1.Image
	omitted []v1.Descriptor
}

func (r *replacedIndex) Digest() (v1.Hash, error)     { return partial.Digest(r) }
func (r *replacedIndex) Size() (int64, error)         { return partial.Size(r) }
func (r *replacedIndex) RawManifest() ([]byte, error) { return bytes.Clone(r.raw), nil }
func (r *replacedIndex) IndexManifest() (*v1.IndexManifest, error) {
	return v1.ParseIndexManifest(bytes.NewReader(r.raw))
}

func (r *replacedIndex) Image(h v1.Hash) (v1.Image, error) {
	if h == r.digest {
		return r.img, nil
	}
	return r.imageIndex.Image(h)
}

// Layer gives an entry that is neither image nor index.
func (r *replacedIndex) Layer(h v1.Hash) (v1.Layer, error) { return blobOf(r.imageIndex, h) }

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
