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
	var omitted []v1.Descriptor
	raw, err := editIndex(was.raw, func(e v1.Descriptor, members blob.Object) bool {
		if e.Digest == old.Digest {
			delete(members, "data") // the old content itself (image-spec, descriptor.md)
			members.Set(map[string]any{"digest": d.Digest, "size": d.Size, "mediaType": d.MediaType})
		}
		aboutOld := isAttestation(e) && e.Annotations[AttestationSubject] == old.Digest.String()
		if aboutOld {
			omitted = append(omitted, e)
		}
		return aboutOld
	})
	if err != nil {
		return nil, err
	}
	out, err := storedIndex(was.from, describe(was.desc.MediaType, raw))
	out.img, out.omitted = img, omitted
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
	if err := json.Unmarshal(was.raw, &members); err != nil {
		return nil, hinterr.Damaged("index: %w", err)
	}
	members.Set(map[string]any{"mediaType": types.OCIImageIndex})
	raw, err := blob.EncodeJSON(members)
	if err != nil {
		return nil, err
	}
	out, err := storedIndex(was.from, describe(types.OCIImageIndex, raw))
	out.img = was.img
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

// editIndex returns the text of an index from which omit, which may change the members of an entry, removed some
// entries; more are added. Equal indexes give equal bytes.
func editIndex(raw []byte, omit func(v1.Descriptor, blob.Object) bool, more ...v1.Descriptor) ([]byte, error) {
	var members blob.Object
	err := json.Unmarshal(raw, &members)
	if err == nil {
		err = blob.Edit(members, "manifests", func(all *[]blob.Object) error {
			*all = slices.DeleteFunc(*all, func(e blob.Object) bool { return omit(recoded[v1.Descriptor](e), e) })
			for _, d := range more {
				*all = append(*all, recoded[blob.Object](d))
			}
			return nil
		})
	}
	if err != nil {
		return nil, hinterr.Damaged("index: %w", err)
	}
	return blob.EncodeJSON(members)
}

// recoded is a value as another type for the same JSON text.
func recoded[T any](value any) (as T) {
	text, _ := json.Marshal(value) // it was JSON before
	_ = json.Unmarshal(text, &as)
	return as
}
