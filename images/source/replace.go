// Replacing one image in an index. All other entries keep their members, those that vfix does not know as well.

package source

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

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
	d, err := partial.Descriptor(img)
	if err != nil {
		return nil, err
	}
	out := &index{from: was.from, img: img}
	found := false
	out.raw, err = editIndex(was.raw, func(all []indexEntry) []indexEntry {
		for _, e := range all {
			if e.Digest == old.Digest {
				found = true
				delete(e.members, "data") // the old content itself (image-spec, descriptor.md)
				e.members.Set(map[string]any{"digest": d.Digest, "size": d.Size, "mediaType": d.MediaType})
			}
		}
		return slices.DeleteFunc(all, func(e indexEntry) bool {
			about := isAttestation(e.Descriptor) && e.Annotations[AttestationSubject] == old.Digest.String()
			if about {
				out.omitted = append(out.omitted, e.Descriptor)
			}
			return about
		})
	})
	if err == nil && !found {
		err = hinterr.Errorf(hinterr.ErrNotFound, "no manifest %v in the index", old.Digest)
	}
	if err == nil {
		err = json.Unmarshal(out.raw, &out.parsed)
	}
	out.desc = describe(was.desc.MediaType, out.raw)
	return out, err
}

// OCIIndex gives an index OCI's media type: skopeo and podman find no docker manifest list in a layout. Its entries stay
// as they are.
func OCIIndex(idx v1.ImageIndex) (v1.ImageIndex, error) {
	was, ok := idx.(*index)
	if !ok || was.desc.MediaType != types.DockerManifestList {
		return idx, nil
	}
	var members blob.Object
	err := json.Unmarshal(was.raw, &members)
	if err != nil {
		return nil, hinterr.Damaged("index: %w", err)
	}
	members.Set(map[string]any{"mediaType": types.OCIImageIndex})
	out := *was
	out.parsed.MediaType = types.OCIImageIndex
	if out.raw, err = blob.EncodeJSON(members); err == nil {
		out.desc = describe(types.OCIImageIndex, out.raw)
	}
	return &out, err
}

// noteOmitted reports the attestations that ReplaceInIndex omitted.
func noteOmitted(idx v1.ImageIndex, p progress.Reporter) {
	if r, ok := idx.(*index); ok {
		for _, d := range r.omitted {
			p.Note("%s %v describes the image that was replaced: omitted", strings.ReplaceAll(d.Annotations[AttestationKey], "-", " "), d.Digest)
		}
	}
}

// indexEntry is an entry of an index with all its members.
type indexEntry struct {
	v1.Descriptor
	members blob.Object
}

func (e *indexEntry) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &e.Descriptor); err != nil {
		return err
	}
	return json.Unmarshal(text, &e.members)
}

func (e indexEntry) MarshalJSON() ([]byte, error) { return blob.EncodeJSON(e.members) }

// newEntry is the entry of a new image.
func newEntry(d v1.Descriptor) (e indexEntry) {
	text, _ := json.Marshal(d) // a descriptor always encodes
	_ = e.UnmarshalJSON(text)
	return e
}

// editIndex returns the text of an index with the entries that f makes of its own. Equal indexes give equal bytes.
func editIndex(raw []byte, f func([]indexEntry) []indexEntry) ([]byte, error) {
	var members blob.Object
	err := json.Unmarshal(raw, &members)
	if err == nil {
		err = blob.Edit(members, "manifests", func(all *[]indexEntry) error {
			*all = f(*all)
			return nil
		})
	}
	if err != nil {
		return nil, hinterr.Damaged("index: %w", err)
	}
	return blob.EncodeJSON(members)
}
