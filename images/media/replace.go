// Replacing one image in an index, with all other text kept as it is.

package media

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// ReplaceInIndex returns idx with the image that old describes replaced by img, wherever it
// stands: in idx or in an index in it. Of old's entry only digest, size and media type
// change; platform, annotations and position are kept. Every other entry keeps its bytes,
// and the index its own text around them, but for buildkit's attestations about old, which
// are not about img and go: Put notes that. Errors come from the methods of the result.
func ReplaceInIndex(idx v1.ImageIndex, old v1.Descriptor, img v1.Image) v1.ImageIndex {
	return replaceInIndex(idx, old, img, blob.MaxNesting)
}

func replaceInIndex(idx v1.ImageIndex, old v1.Descriptor, img v1.Image, depth int) *replacedIndex {
	r := &replacedIndex{base: idx, old: old, img: img, depth: depth}
	r.compute = sync.OnceValue(r.edit)
	return r
}

// replacedIndex is an index with one image replaced. It implements v1.ImageIndex.
type replacedIndex struct {
	base  v1.ImageIndex
	old   v1.Descriptor
	img   v1.Image
	depth int

	compute func() error
	// Set by compute:
	raw     []byte
	digest  v1.Hash                    // of img, where it stands in this index
	nested  map[v1.Hash]*replacedIndex // indexes in this one that changed, by new digest
	dropped []v1.Descriptor            // attestations about old, here and in nested
}

// edit makes the new text of the index.
func (r *replacedIndex) edit() error {
	raw, err := r.base.RawManifest()
	if err != nil {
		return err
	}
	text, err := parseIndexText(raw)
	if err != nil {
		return err
	}
	r.nested = map[v1.Hash]*replacedIndex{}
	found := false
	for n, d := range text.Entries {
		switch {
		case isAttestation(d) && d.Annotations[AttestationSubject] == r.old.Digest.String():
			text.Drop(n)
			r.dropped = append(r.dropped, d)
		case d.Digest == r.old.Digest:
			nd, err := partial.Descriptor(r.img)
			if err != nil {
				return err
			}
			if err := text.Replace(n, *nd); err != nil {
				return err
			}
			r.digest, found = nd.Digest, true
		case d.MediaType.IsIndex() && r.depth > 0:
			sub, err := r.base.ImageIndex(d.Digest)
			if errors.Is(err, hinterr.ErrNotFound) {
				continue // a layout need not have every platform
			}
			if err != nil {
				return err
			}
			in := replaceInIndex(sub, r.old, r.img, r.depth-1)
			if err := in.compute(); errors.Is(err, hinterr.ErrNotFound) {
				continue
			} else if err != nil {
				return err
			}
			nd, err := partial.Descriptor(in)
			if err != nil {
				return err
			}
			if err := text.Replace(n, *nd); err != nil {
				return err
			}
			r.nested[nd.Digest], found = in, true
			r.dropped = append(r.dropped, in.dropped...)
		}
	}
	if !found {
		return hinterr.Errorf(hinterr.ErrNotFound, "no manifest %v in the index", r.old.Digest)
	}
	r.raw = text.Bytes()
	return nil
}

func (r *replacedIndex) MediaType() (types.MediaType, error) { return r.base.MediaType() }
func (r *replacedIndex) Digest() (v1.Hash, error)            { return partial.Digest(r) }
func (r *replacedIndex) Size() (int64, error)                { return partial.Size(r) }

func (r *replacedIndex) RawManifest() ([]byte, error) {
	if err := r.compute(); err != nil {
		return nil, err
	}
	return bytes.Clone(r.raw), nil
}

func (r *replacedIndex) IndexManifest() (*v1.IndexManifest, error) {
	if err := r.compute(); err != nil {
		return nil, err
	}
	return v1.ParseIndexManifest(bytes.NewReader(r.raw))
}

func (r *replacedIndex) Image(h v1.Hash) (v1.Image, error) {
	if err := r.compute(); err != nil {
		return nil, err
	}
	if h == r.digest {
		return r.img, nil
	}
	return r.base.Image(h)
}

func (r *replacedIndex) ImageIndex(h v1.Hash) (v1.ImageIndex, error) {
	if err := r.compute(); err != nil {
		return nil, err
	}
	if in, ok := r.nested[h]; ok {
		return in, nil
	}
	return r.base.ImageIndex(h)
}

// Layer gives what is neither image nor index; remote.WriteIndex asks for it.
func (r *replacedIndex) Layer(h v1.Hash) (v1.Layer, error) { return blob.BlobOf(r.base, h) }

// NoteDropped tells of the attestations that ReplaceInIndex left out.
func NoteDropped(idx v1.ImageIndex, p progress.Reporter) {
	r, ok := idx.(*replacedIndex)
	if !ok || r.compute() != nil {
		return
	}
	NoteDropped(r.base, p)
	for _, d := range r.dropped {
		p.Note("%s %v is about the image that was replaced: left out", strings.ReplaceAll(d.Annotations[AttestationKey], "-", " "), d.Digest)
	}
}

// indexText is the JSON text of an index, taken apart so far that single entries can be
// changed and every other byte stays.
type indexText struct {
	raw     []byte
	spans   []span // of the entries in raw
	Entries []v1.Descriptor
	Texts   [][]byte // what each entry becomes; nil: dropped
	open    int      // offset just behind the [
	end     int      // offset of the ]
}

// span is a range of bytes, end exclusive.
type span struct{ start, end int }

// parseIndexText finds the entries of an index. It errs where "manifests" is missing, no
// list or there twice: readers would disagree on which one counts.
func parseIndexText(raw []byte) (*indexText, error) {
	t := &indexText{raw: raw}
	if !json.Valid(raw) { // a decoder alone would not look at what follows the object
		return nil, hinterr.Damaged("index: not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, hinterr.Damaged("index: not a JSON object")
	}
	lists := 0
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, hinterr.Damaged("index: %v", err)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, hinterr.Damaged("index: %v", err)
		}
		if name, _ := key.(string); strings.EqualFold(name, "manifests") {
			lists++
			if err := t.list(v, int(dec.InputOffset())-len(v)); err != nil {
				return nil, err
			}
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, hinterr.Damaged("index: %v", err)
	}
	if lists != 1 {
		return nil, hinterr.Damaged("index: got %d lists of manifests, want 1", lists)
	}
	return t, nil
}

// list takes the list of entries apart, which stands at an offset of raw.
func (t *indexText) list(v []byte, at int) error {
	dec := json.NewDecoder(bytes.NewReader(v))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('[') {
		return hinterr.Damaged("index: manifests is not a list")
	}
	t.open, t.end = at+1, at+len(v)-1
	for dec.More() {
		var e json.RawMessage
		if err := dec.Decode(&e); err != nil {
			return hinterr.Damaged("index: %v", err)
		}
		var d v1.Descriptor
		if err := json.Unmarshal(e, &d); err != nil {
			return hinterr.Damaged("index: entry %d: %v", len(t.Entries), err)
		}
		end := at + int(dec.InputOffset())
		t.spans = append(t.spans, span{end - len(e), end})
		t.Entries = append(t.Entries, d)
		t.Texts = append(t.Texts, e)
	}
	return nil
}

func (t *indexText) Drop(n int) { t.Texts[n] = nil }

// Replace makes entry n describe other content: of d only digest, size and media type are
// used, and data goes, being the old content itself.
func (t *indexText) Replace(n int, d v1.Descriptor) error {
	dec := json.NewDecoder(bytes.NewReader(t.Texts[n]))
	if _, err := dec.Token(); err != nil {
		return err
	}
	set := map[string]any{"digest": d.Digest, "size": d.Size, "mediaType": d.MediaType}
	var out bytes.Buffer
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return err
		}
		name, _ := key.(string)
		if name == "data" {
			continue
		}
		if nv, ok := set[name]; ok {
			if v, err = json.Marshal(nv); err != nil {
				return err
			}
		}
		k, err := json.Marshal(name)
		if err != nil {
			return err
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.Write(k)
		out.WriteByte(':')
		out.Write(v)
	}
	t.Texts[n] = []byte("{" + out.String() + "}")
	return nil
}

// Add puts an entry at the end of the list.
func (t *indexText) Add(d v1.Descriptor) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	t.Entries = append(t.Entries, d)
	t.Texts = append(t.Texts, text)
	return nil
}

// Bytes puts the text together again. A dropped entry takes the text before it with it,
// the first one the text behind it; an entry that was added follows a plain comma.
func (t *indexText) Bytes() []byte {
	out := bytes.NewBuffer(nil)
	out.Write(t.raw[:t.open])
	first, at := true, t.open
	for n, text := range t.Texts {
		if n < len(t.spans) {
			gap := t.raw[at:t.spans[n].start]
			at = t.spans[n].end
			if text == nil {
				continue
			}
			if first {
				gap = bytes.TrimLeft(gap, ",")
				if i := bytes.IndexByte(gap, ','); i >= 0 {
					gap = append(bytes.Clone(gap[:i]), gap[i+1:]...)
				}
			}
			out.Write(gap)
		} else if !first {
			out.WriteByte(',')
		}
		out.Write(text)
		first = false
	}
	out.Write(t.raw[at:])
	return out.Bytes()
}
