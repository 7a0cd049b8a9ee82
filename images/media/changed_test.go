package media_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
	"vfix.dev/vfix/tests/recorded"
)

// archived are the files of an archive that is changed.
type archived map[string]string

func (a archived) tar(t *testing.T) []byte {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		all = append(all, name, a[name])
	}
	return imagetest.TarOf(t, all...)
}

// change replaces a file. A blob gets its new digest, also in all that names it.
func (a archived) change(name, now string) {
	was := a[name]
	hex, isBlob := strings.CutPrefix(name, "blobs/sha256/")
	if !isBlob {
		a[name] = now
		return
	}
	delete(a, name)
	h, _, _ := v1.SHA256(strings.NewReader(now))
	a["blobs/sha256/"+h.Hex] = now
	size := regexp.MustCompile(fmt.Sprintf(`("size":\s*)%d\b([^{}]*%s)`, len(was), hex))
	for other, text := range maps.Clone(a) {
		if strings.Contains(text, hex) {
			text = size.ReplaceAllString(text, fmt.Sprintf("${1}%d${2}", len(now)))
			a.change(other, strings.ReplaceAll(text, hex, h.Hex))
		}
	}
}

// An archive of which one thing is changed, in each of its JSON files, is read as recorded.
func TestChangedArchives(t *testing.T) {
	img := imagetest.TinyImage(t)
	layers := imagetest.Must[[]v1.Layer](t)(img.Layers())
	config := string(imagetest.Must[[]byte](t)(img.RawConfigFile()))
	plain := func(n int) string {
		return string(imagetest.Must[[]byte](t)(io.ReadAll(imagetest.Must[io.ReadCloser](t)(layers[n].Uncompressed()))))
	}
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	all := map[string]archived{
		"docker-archive": {"manifest.json": `[{"Config":"c.json","RepoTags":["app:1"],"Layers":["l1/layer.tar","l2/layer.tar"]}]`,
			"c.json": config, "l1/layer.tar": plain(0), "l2/layer.tar": plain(1)},
		"docker-archive of two": {"manifest.json": `[{"Config":"c.json","RepoTags":["app:1"],"Layers":["l1/layer.tar"]},{"Config":"c.json","RepoTags":["other:2"],"Layers":["l1/layer.tar","l2/layer.tar"]}]`,
			"c.json": config, "l1/layer.tar": plain(0), "l2/layer.tar": plain(1)},
		"docker-archive of before 1.10": {"repositories": `{"app":{"1":"` + two + `"}}`, one + "/VERSION": "1.0", two + "/VERSION": "1.0", one + "/layer.tar": plain(0), two + "/layer.tar": plain(1),
			one + "/json": `{"id":"` + one + `","os":"linux","architecture":"amd64"}`, two + "/json": `{"id":"` + two + `","parent":"` + one + `","os":"linux","architecture":"amd64","config":{"Cmd":["/bin/sh"]}}`},
		"oci-archive": {}, "oci-archive of an index": {},
	}
	for name, index := range map[string]v1.ImageIndex{"oci-archive": nil, "oci-archive of an index": imagetest.TinyIndex(t)} {
		dir, one := t.TempDir(), img
		if index != nil {
			one = imagetest.PlatformImage(t, "amd64", "one")
		}
		imagetest.Put(t, "oci:"+dir+"/x:app", media.Result{Image: one, Index: index})
		if err := filepath.WalkDir(dir+"/x", func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && filepath.Base(path)[0] != '.' {
				all[name][strings.TrimPrefix(path, dir+"/x/")] = string(imagetest.Must[[]byte](t)(os.ReadFile(path)))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "x.tar")
	digest := regexp.MustCompile("[0-9a-f]{64}")
	read := func(kind string) string {
		transport, _, _ := strings.Cut(kind, " ")
		tag := ""
		if kind == "docker-archive of two" {
			tag = ":app:1"
		}
		src, err := sources.Open(t.Context(), transport+":"+file+tag, media.Options{})
		if err != nil {
			return strings.ReplaceAll(fmt.Sprintf("%v; %s", err, hinterr.HintOf(err)), file, "FILE")
		}
		defer src.Close()
		said := fmt.Sprintf("%s %s %v %d", src.Ref.Tag, src.Digest, src.Made, len(src.Levels))
		raw, err := src.Image.RawConfigFile()
		said += fmt.Sprintf(" %s %v", raw, err)
		layers, err := src.Image.Layers()
		if err != nil {
			return said + err.Error()
		}
		for _, l := range layers {
			id, err := l.DiffID()
			r, rerr := l.Uncompressed()
			if said += fmt.Sprintf(" %v %v %v", id, err, rerr); rerr == nil {
				b, err := io.ReadAll(r)
				said += fmt.Sprintf(" %d %v", len(b), err)
				r.Close()
			}
		}
		return said
	}
	for kind, files := range all {
		n := 0
		for _, name := range slices.SortedFunc(maps.Keys(files), func(a, b string) int { return strings.Compare(files[a], files[b]) }) {
			n++
			if !json.Valid([]byte(files[name])) {
				continue
			}
			var b strings.Builder
			imagetest.EachChange(t, []byte(files[name]), func(what string, changed []byte) {
				a := maps.Clone(files)
				a.change(name, string(changed))
				imagetest.Write(t, file, a.tar(t))
				fmt.Fprintf(&b, "%s: %s\n", what, read(kind))
			})
			numbers := map[string]int{} // of digests: those of layers depend on the compressor
			said := digest.ReplaceAllStringFunc(b.String(), func(hex string) string {
				if numbers[hex] == 0 {
					numbers[hex] = len(numbers) + 1
				}
				return fmt.Sprint("#", numbers[hex])
			})
			failed := t.Failed()
			if recorded.Check(t, kind+" "+digest.ReplaceAllString(name, "BLOB")+" "+fmt.Sprint(n), said); t.Failed() != failed {
				t.Log(said)
			}
		}
	}
}
