// Replacing one image in an index, with all other text kept as it is.

package media

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/tailscale/hujson"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// ReplaceInIndex returns idx with the image that old describes replaced by img, wherever it
// is: in idx or in an index in it. Of old's entry only digest, size and media type
// change; platform, annotations and position are kept. Every other entry keeps its bytes,
// and the index its own text around them, except for buildkit's attestations about old, which
// are not about img and go: Put notes that.
func ReplaceInIndex(idx v1.ImageIndex, old v1.Descriptor, img v1.Image) (v1.ImageIndex, error) {
	r, err := replaceInIndex(idx, old, img, blob.MaxNesting)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// replacedIndex is an index with one image replaced. It implements v1.ImageIndex.
type replacedIndex struct {
	base    v1.ImageIndex
	img     v1.Image
	raw     []byte
	digest  v1.Hash                    // of img, if it is in this index
	nested  map[v1.Hash]*replacedIndex // indexes in this one that changed, by new digest
	dropped []v1.Descriptor            // attestations about the old image, here and in nested
}

func replaceInIndex(idx v1.ImageIndex, old v1.Descriptor, img v1.Image, depth int) (*replacedIndex, error) {
	r := &replacedIndex{base: idx, img: img, nested: map[v1.Hash]*replacedIndex{}}
	raw, err := idx.RawManifest()
	if err != nil {
		return nil, err
	}
	text, err := parseIndexText(raw)
	if err != nil {
		return nil, err
	}
	found := false
	replace := func(n int, by partial.Describable) (v1.Hash, error) {
		d, err := partial.Descriptor(by)
		if err != nil {
			return v1.Hash{}, err
		}
		found = true
		return d.Digest, text.Replace(n, *d)
	}
	for n, d := range text.Entries {
		switch {
		case isAttestation(d) && d.Annotations[AttestationSubject] == old.Digest.String():
			text.Drop(n)
			r.dropped = append(r.dropped, d)
		case d.Digest == old.Digest:
			if r.digest, err = replace(n, img); err != nil {
				return nil, err
			}
		case d.MediaType.IsIndex() && depth > 0:
			var in *replacedIndex
			sub, err := idx.ImageIndex(d.Digest)
			if err == nil {
				in, err = replaceInIndex(sub, old, img, depth-1)
			}
			if errors.Is(err, hinterr.ErrNotFound) {
				continue // it is not in there, or the layout does not have that platform
			}
			if err != nil {
				return nil, err
			}
			digest, err := replace(n, in)
			if err != nil {
				return nil, err
			}
			r.nested[digest], r.dropped = in, append(r.dropped, in.dropped...)
		}
	}
	if !found {
		return nil, hinterr.Errorf(hinterr.ErrNotFound, "no manifest %v in the index", old.Digest)
	}
	r.raw = text.Bytes()
	return r, nil
}

func (r *replacedIndex) MediaType() (types.MediaType, error) { return r.base.MediaType() }
func (r *replacedIndex) Digest() (v1.Hash, error)            { return partial.Digest(r) }
func (r *replacedIndex) Size() (int64, error)                { return partial.Size(r) }
func (r *replacedIndex) RawManifest() ([]byte, error)        { return bytes.Clone(r.raw), nil }
func (r *replacedIndex) IndexManifest() (*v1.IndexManifest, error) {
	return v1.ParseIndexManifest(bytes.NewReader(r.raw))
}

func (r *replacedIndex) Image(h v1.Hash) (v1.Image, error) {
	if h == r.digest {
		return r.img, nil
	}
	return r.base.Image(h)
}

func (r *replacedIndex) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	if in, ok := r.nested[h]; ok {
		return in, nil
	}
	return r.base.ImageIndex(h)
}

// Layer gives what is neither image nor index.
func (r *replacedIndex) Layer(h v1.Hash) (v1.Layer, error) { return blob.BlobOf(r.base, h) }

// NoteDropped reports the attestations that ReplaceInIndex left out.
func NoteDropped(idx v1.ImageIndex, p progress.Reporter) {
	r, ok := idx.(*replacedIndex)
	if !ok {
		return
	}
	NoteDropped(r.base, p)
	for _, d := range r.dropped {
		p.Note("%s %v describes the image that was replaced: omitted", strings.ReplaceAll(d.Annotations[AttestationKey], "-", " "), d.Digest)
	}
}

// indexText is the JSON text of an index, of which single entries can be changed: every other byte stays.
type indexText struct {
	doc     hujson.Value
	list    *hujson.Array
	Entries []v1.Descriptor
}

// parseIndexText finds the entries of an index. It errs where "manifests" is missing, no
// list or there twice: readers would disagree on which one counts.
func parseIndexText(raw []byte) (*indexText, error) {
	if !json.Valid(raw) { // hujson also takes comments
		return nil, hinterr.Damaged("index: not JSON")
	}
	t := &indexText{}
	var err error
	if t.doc, err = hujson.Parse(raw); err != nil {
		return nil, hinterr.Damaged("index: %v", err)
	}
	top, ok := t.doc.Value.(*hujson.Object)
	if !ok {
		return nil, hinterr.Damaged("index: not a JSON object")
	}
	lists := 0
	for _, m := range top.Members {
		if strings.EqualFold(m.Name.Value.(hujson.Literal).String(), "manifests") {
			lists++
			if t.list, ok = m.Value.Value.(*hujson.Array); !ok {
				return nil, hinterr.Damaged("index: manifests is not a list")
			}
		}
	}
	if lists != 1 {
		return nil, hinterr.Damaged("index: got %d lists of manifests, want 1", lists)
	}
	all := t.list.Elements
	for n := range all {
		var d v1.Descriptor
		if err := json.Unmarshal(all[n].Pack(), &d); err != nil {
			return nil, hinterr.Damaged("index: entry %d: %v", n, err)
		}
		t.Entries = append(t.Entries, d)
	}
	return t, nil
}

// Drop takes entry n away; the numbers of the others stay.
func (t *indexText) Drop(n int) { t.list.Elements[n].Value = nil }

// Replace makes entry n describe other content: of d only digest, size and media type are
// used, and data goes, being the old content itself.
func (t *indexText) Replace(n int, d v1.Descriptor) error {
	entry, ok := t.list.Elements[n].Value.(*hujson.Object)
	if !ok {
		return hinterr.Damaged("index: entry %d: not an object", n)
	}
	set := map[string]any{"digest": d.Digest, "size": d.Size, "mediaType": d.MediaType}
	var kept []hujson.ObjectMember
	for _, m := range entry.Members {
		name := m.Name.Value.(hujson.Literal).String()
		if name == "data" {
			continue
		}
		if v, ok := set[name]; ok {
			text, err := json.Marshal(v)
			if err != nil {
				return err
			}
			m.Value.Value = hujson.Literal(text)
		}
		kept = append(kept, hujson.ObjectMember{Name: hujson.Value{Value: m.Name.Value}, Value: hujson.Value{Value: m.Value.Value}})
	}
	t.list.Elements[n].Value = &hujson.Object{Members: kept}
	return nil
}

// Add puts an entry at the end of the list.
func (t *indexText) Add(d v1.Descriptor) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	v, err := hujson.Parse(text)
	if err != nil {
		return err
	}
	t.Entries, t.list.Elements = append(t.Entries, d), append(t.list.Elements, v)
	return nil
}

// Text is the current text of an entry.
func (t *indexText) Text(n int) []byte { return hujson.Value{Value: t.list.Elements[n].Value}.Pack() }

// Bytes puts the text together again. A dropped entry takes the white space before it with it; an entry that was
// added follows a plain comma.
func (t *indexText) Bytes() []byte {
	all := t.list.Elements
	defer func() { t.list.Elements = all }()
	kept := slices.DeleteFunc(slices.Clone(all), func(e hujson.Value) bool { return e.Value == nil })
	if n := len(kept); n > 0 {
		kept[n-1].AfterExtra = nil // or hujson writes a comma behind it
	}
	t.list.Elements = kept
	return t.doc.Pack()
}
