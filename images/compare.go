// Comparisons of file systems and of JSON texts, for verify.

package images

import (
	"archive/tar"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
)

// kinds are the words for the types of files.
var kinds = map[byte]string{
	tar.TypeReg: "file", tar.TypeLink: "hard link", tar.TypeSymlink: "symlink", tar.TypeDir: "directory",
	tar.TypeChar: "device", tar.TypeBlock: "block device", tar.TypeFifo: "fifo",
}

// facts are what is compared of the files of an image: of each its kind with metadata and content, as of JSON.
func facts(ctx context.Context, s *contents.Session, img v1.Image) (map[string]any, error) {
	t, err := s.Image(ctx, img)
	if err != nil {
		return nil, err
	}
	sums := map[*contents.Inode]string{}
	err = t.Read(ctx, t.Files((*contents.Inode).HasContent), func(f *contents.Target, r io.Reader) error {
		sum, _, err := v1.SHA256(blob.Reading{Ctx: ctx, Reader: r})
		sums[f.Inode] = sum.String()
		return err
	})
	all := map[string]any{}
	for name, e := range t.Entries() {
		f := map[string]any{"mode": fmt.Sprintf("%#o", e.Mode), "owner": fmt.Sprintf("%d:%d", e.Uid, e.Gid), "mtime": e.ModTime.UTC().String()}
		switch e.Typeflag {
		case tar.TypeReg:
			f["content"] = sums[t.At(name).Inode]
		case tar.TypeLink, tar.TypeSymlink:
			f["to"] = e.Linkname
		case tar.TypeChar, tar.TypeBlock:
			f["number"] = fmt.Sprintf("%d:%d", e.Devmajor, e.Devminor)
		}
		for key, value := range e.PAXRecords {
			f[strings.TrimPrefix(key, blob.XattrPrefix)] = fmt.Sprintf("%q", value)
		}
		all["/"+name] = map[string]any{kinds[e.Typeflag]: f}
	}
	return all, err
}

// parsed is a JSON text as a value; a damaged one is a string.
func parsed(text []byte) (value any) {
	if json.Unmarshal(text, &value) != nil {
		return string(text)
	}
	return value
}

// members compares two values, objects member by member, and names the members that differ.
func (v *Verified) members(where string, want, got any) {
	w, isW := want.(map[string]any)
	g, isG := got.(map[string]any)
	switch {
	case reflect.DeepEqual(want, got):
	case got == nil:
		v.problem("%s: missing", where)
	case want == nil:
		v.problem("%s: vfix writes none", where)
	case !isW || !isG:
		v.problem("%s: got %s, want %s", where, short(got), short(want))
	default:
		all := maps.Clone(w)
		maps.Copy(all, g)
		for _, k := range contents.SortedKeys(all) {
			v.members(strings.TrimPrefix(where+": "+k, ": "), w[k], g[k])
		}
	}
}

// short is the beginning of a long value.
func short(value any) string {
	const most = 200 // bytes
	raw, _ := json.Marshal(value)
	if len(raw) > most {
		return strings.ToValidUTF8(string(raw[:most]), "") + "…"
	}
	return string(raw)
}
