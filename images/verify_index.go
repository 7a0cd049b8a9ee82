// The index, compared with what a rebuild makes of the base's: entries of patched images are
// replaced, attestations about them left out, and all else is as it was.

package images

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/jsonobject"
)

// index compares the indexes that the images were chosen from. patched maps the digest of an
// image in the base's to the digest of what was made of it.
func (v *verification) index(patched map[string]string) error {
	base, after := v.base.Src.Index, v.after.Src.Index
	switch {
	case base == nil && after == nil:
		return nil
	case after == nil:
		v.skip("images of other platforms: %v has none", v.after.Src.Ref)
		return nil
	case base == nil && hasManifest(v.base.Src):
		v.problem("index: the base is a single image")
		return nil
	case base == nil:
		v.skip("images of other platforms: %v has none", v.base.Src.Ref)
		return nil
	}
	_, err := v.indexes("index", base, after, patched, blob.MaxNesting)
	return err
}

// indexText is an index, taken apart.
type indexText struct {
	rest    jsonobject.Object // without the entries
	entries []jsonobject.Object
}

func parseIndex(idx v1.ImageIndex) (*indexText, error) {
	raw, err := idx.RawManifest()
	if err != nil {
		return nil, err
	}
	t := &indexText{}
	if key := duplicateKey(json.NewDecoder(bytes.NewReader(raw))); key != "" {
		return nil, fmt.Errorf("index: %s: there twice", key)
	}
	if err := json.Unmarshal(raw, &t.rest); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if err := json.Unmarshal(t.rest["manifests"], &t.entries); err != nil {
		return nil, fmt.Errorf("index: manifests: %w", err)
	}
	delete(t.rest, "manifests")
	for _, e := range t.entries {
		ociName(e)
	}
	return t, nil
}

// indexes compares two indexes, and reports whether a patched image stands in them.
func (v *verification) indexes(where string, base, after v1.ImageIndex, patched map[string]string, depth int) (found bool, err error) {
	want, err := parseIndex(base)
	if err != nil {
		return false, err
	}
	got, err := parseIndex(after)
	if err != nil {
		return false, err
	}
	kept := want.entries[:0:0]
	for _, e := range want.entries {
		var d v1.Descriptor
		if err := decode(e, &d); err != nil {
			return false, err
		}
		if media.AttestationAbout(d, patched) {
			found = true
			continue
		}
		kept = append(kept, e)
	}
	v.object(where, want.rest, got.rest)
	if len(kept) != len(got.entries) {
		v.problem("%s: got %d entries, want %d", where, len(got.entries), len(kept))
		return found, nil
	}
	for n, w := range kept {
		in, err := v.entry(fmt.Sprintf("%s: entry %d", where, n), base, after, w, got.entries[n], patched, depth)
		if err != nil {
			return false, err
		}
		found = found || in
	}
	return found, nil
}

// entry compares two entries, and reports whether a patched image stands there.
func (v *verification) entry(where string, base, after v1.ImageIndex, want, got jsonobject.Object, patched map[string]string, depth int) (found bool, err error) {
	var w, g v1.Descriptor
	if err := decode(want, &w); err != nil {
		return false, err
	}
	if err := decode(got, &g); err != nil {
		return false, err
	}
	size := g.Size
	switch to := patched[w.Digest.String()]; {
	case to != "":
		want["digest"], _ = jsonobject.Encode(to)
		img, err := after.Image(g.Digest)
		if err != nil {
			return false, err
		}
		if size, err = img.Size(); err != nil {
			return false, err
		}
		found = true
	case w.MediaType.IsIndex() && g.MediaType.IsIndex() && w.Digest != g.Digest && depth > 0:
		subBase, err := base.ImageIndex(w.Digest)
		if err != nil {
			return false, err
		}
		subAfter, err := after.ImageIndex(g.Digest)
		if err != nil {
			return false, err
		}
		if found, err = v.indexes(where, subBase, subAfter, patched, depth-1); err != nil || !found {
			return false, err
		}
		want["digest"] = got["digest"]
		if size, err = subAfter.Size(); err != nil {
			return false, err
		}
	}
	if found {
		want["size"], _ = jsonobject.Encode(size)
		delete(want, "data")
	}
	v.object(where, want, got)
	return found, nil
}

func decode(o jsonobject.Object, v any) error {
	raw, err := jsonobject.Encode(o)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}
