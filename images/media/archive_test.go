package media_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func TestDockerArchiveRead(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	img := imagetest.TinyImage(t)
	var ggcr bytes.Buffer
	if err := tarball.Write(name.MustParseReference("redis:2.8"), img, &ggcr); err != nil {
		t.Fatal(err)
	}
	save := imagetest.DockerSave(t, img, "redis:2.8")
	for file, data := range map[string][]byte{
		"plain.tar":   save,
		"gzip.tar.gz": imagetest.GzipOf(t, save),
		"zstd":        imagetest.ZstdOf(t, save),
		"ggcr.tar":    ggcr.Bytes(),
	} {
		path := imagetest.Write(t, dir+"/"+file, data)
		for _, source := range []string{path, "docker-archive:" + path, "docker-archive:" + path + ":docker.io/library/redis:2.8"} {
			src := imagetest.Open(t, source)
			if src.Ref.Transport != media.DockerArchive || !media.SameImageName(src.Ref.Tag, "redis:2.8") {
				t.Errorf("%s: got %+v", source, src.Ref)
			}
			if src.Digest != imagetest.Must[v1.Hash](t)(img.ConfigName()).String() {
				t.Errorf("%s: digest: got %s", source, src.Digest)
			}
			imagetest.SameImage(t, src.Image, img)
			if runtime.GOOS != "windows" {
				imagetest.WantEmpty(t, os.TempDir()) // a run that is killed leaves nothing, either
			}
		}
		err := imagetest.OpenErr(t, "docker-archive:"+path+":redis:3")
		imagetest.WantErr(t, err, hinterr.ErrNotFound, `"redis:3"`)
		if h := hinterr.HintOf(err); !strings.HasSuffix(h, "redis:2.8") {
			t.Errorf("hint: %q", h)
		}
	}
}

// An image of an archive of before docker 1.10 is named by its tag, or by what docker shows of its ID.
func TestOldArchiveTags(t *testing.T) {
	imagetest.CleanTemp(t)
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	layer := string(imagetest.TarOf(t, "x", "x"))
	packed := imagetest.GzipOf(t, imagetest.TarOf(t, "y", "y"))
	files := []string{one + "/VERSION", "1.0", two + "/VERSION", "1.0", one + "/layer.tar", layer, two + "/layer.tar", string(packed),
		one + "/json", `{"id":"` + one + `","os":"linux","architecture":"amd64"}`, two + "/json", `{"id":"` + two + `","parent":"` + one + `","os":"linux","architecture":"amd64"}`}
	// Of layers alone: the others are not layers.
	three := strings.Repeat("3", 64)
	files = append(files, three+"/json", `{"id":"`+three+`"}`, "short/json", "{}", "short/layer.tar", layer)
	const unnamed = "nothing"
	for _, c := range []struct {
		repositories, tag, is string
		layers                int // 0: not found
	}{
		{`{"app":{"1":"` + two + `"}}`, "", "app:1", 2}, {`{"app":{"1":"` + two + `"}}`, "app:1", "app:1", 2}, {`{"app":{"1":"` + two + `"}}`, "app:2", "app:1", 0},
		{`{"app":{"1":"` + two + `"}}`, two[:12], "", 2}, {`{"app":{"1":"` + two + `"}}`, "sha256:" + two, "", 2}, {`{"app":{"1":"` + two + `"}}`, two[:11], "app:1", 0},
		{`{"app":{"1":"` + two + `"}}`, one[:12], "", 1}, {`{"app":{"1":"` + two + `"}}`, "sha256:" + one[:12], "", 1}, {unnamed, "", "", 2}, {unnamed, two[:12], "", 2}, {unnamed, "app:1", "its images have no tags", 0},
		{`{"app":{"1":"` + two + `","0":"` + two + `"},"other":{"1":"` + one + `"}}`, "", "app:0 app:1 other:1", 0}, {`{"app":{"1":"` + two + `","0":"` + two + `"}}`, "", "app:0", 2},
	} {
		all := files
		if c.repositories != unnamed {
			all = append(slices.Clone(files), media.ArchiveV1, c.repositories)
		}
		path := imagetest.Write(t, t.TempDir()+"/x.tar", imagetest.TarOf(t, all...))
		source := strings.TrimSuffix("docker-archive:"+path+":"+c.tag, ":")
		if c.layers == 0 {
			err := imagetest.OpenErr(t, source)
			imagetest.WantErr(t, err, hinterr.ErrNotFound)
			if !strings.Contains(hinterr.HintOf(err), c.is) {
				t.Errorf("%s of %s: got the hint %q", c.tag, c.repositories, hinterr.HintOf(err))
			}
			continue
		}
		src := imagetest.Open(t, source)
		if n := len(imagetest.Must[[]v1.Layer](t)(src.Image.Layers())); n != c.layers || src.Ref.Tag != c.is {
			t.Errorf("%s of %s: got %d layers, tag %q", c.tag, c.repositories, n, src.Ref.Tag)
		}
		if m := imagetest.Must[*v1.Manifest](t)(src.Image.Manifest()); c.layers == 2 {
			if h, size, _ := v1.SHA256(bytes.NewReader(packed)); m.Layers[1].Digest != h || m.Layers[1].Size != size || m.Layers[1].MediaType != types.DockerLayer {
				t.Errorf("got the layer %+v, want %v of %d bytes", m.Layers[1], h, size)
			}
		}
	}
}

// Such an image has as many layers as a number says, and no cycle of them; several images without names are listed by their IDs.
func TestOldArchiveLayers(t *testing.T) {
	imagetest.CleanTemp(t)
	id := func(n int) string { return fmt.Sprintf("%064x", n) }
	layer := string(imagetest.TarOf(t, "x", "x"))
	archive := func(n int, parent func(int) int) string {
		var files []string
		for i := range n {
			text := `{"id":"` + id(i) + `","os":"linux","architecture":"amd64"`
			if p := parent(i); p >= 0 {
				text += `,"parent":"` + id(p) + `"`
			}
			files = append(files, id(i)+"/json", text+"}", id(i)+"/layer.tar", layer)
		}
		return "docker-archive:" + imagetest.Write(t, t.TempDir()+"/x.tar", imagetest.TarOf(t, files...))
	}
	below := func(n int) int { return n - 1 }
	if n := len(imagetest.Must[[]v1.Layer](t)(imagetest.Open(t, archive(media.MaxChain, below)).Image.Layers())); n != media.MaxChain {
		t.Errorf("got %d layers", n)
	}
	imagetest.WantErr(t, imagetest.OpenErr(t, archive(media.MaxChain+1, below)), hinterr.ErrDamaged, fmt.Sprintf("more than %d layers", media.MaxChain))
	around := archive(3, func(n int) int { return []int{1, 0, 0}[n] })
	imagetest.WantErr(t, imagetest.OpenErr(t, around), hinterr.ErrDamaged, "or a cycle of them")
	err := imagetest.OpenErr(t, archive(3, func(n int) int { return []int{-1, 0, -1}[n] }))
	imagetest.WantErr(t, err, media.ErrSeveral, "2 images")
	if got, want := hinterr.HintOf(err), "add one of these after a colon: "+id(1)+" "+id(2); got != want {
		t.Errorf("got the hint %q, want %q", got, want)
	}
}

// docker save from 25 on writes one archive that is both kinds.
func TestArchiveOfBothKinds(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	img := imagetest.TinyImage(t)
	imagetest.Put(t, "oci-archive:"+dir+"/oci.tar:2.8", media.Result{Image: img})
	tf := imagetest.Must[*media.TarFile](t)(media.OpenTar(context.Background(), dir+"/oci.tar", media.Options{}.WithDefaults(), nil))
	defer tf.Close()
	m := media.ArchiveImage{RepoTags: []string{"redis:2.8"}, Config: media.BlobEntry(imagetest.Must[v1.Hash](t)(img.ConfigName()))}
	for _, l := range imagetest.Must[[]v1.Layer](t)(img.Layers()) {
		m.Layers = append(m.Layers, media.BlobEntry(imagetest.Must[v1.Hash](t)(l.Digest())))
	}
	both := bytes.TrimRight(imagetest.Must[[]byte](t)(os.ReadFile(dir+"/oci.tar")), "\x00")
	both = append(both, make([]byte, -len(both)&(media.TarBlock-1))...)
	more := imagetest.TarOf(t, media.ArchiveManifest, string(imagetest.Must[[]byte](t)(json.Marshal([]media.ArchiveImage{m}))))
	path := imagetest.Write(t, dir+"/both.tar", append(both, more...))

	src := imagetest.Open(t, path)
	if src.Ref.Transport != media.DockerArchive {
		t.Errorf("guessed: got %+v", src.Ref)
	}
	imagetest.SameImage(t, src.Image, img)
	imagetest.SameImage(t, imagetest.Open(t, "oci-archive:"+path+":2.8").Image, img)
}

func TestArchiveWrite(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	img := imagetest.TinyImage(t)
	id := imagetest.Must[v1.Hash](t)(img.ConfigName()).String()
	for _, dest := range []string{"docker-archive:" + dir + "/d%.tar:redis:2.8-vfix", "oci-archive:" + dir + "/o%.tar:2.8"} {
		var same []byte
		for _, n := range []string{"1", "2"} {
			to := strings.Replace(dest, "%", n, 1)
			s := imagetest.Put(t, to, media.Result{Image: img})
			src := imagetest.Open(t, to)
			imagetest.SameImage(t, src.Image, img)
			if src.Digest != s.Digest || s.Reference != to {
				t.Errorf("%s: got %+v, source has digest %s", to, s, src.Digest)
			}
			data := imagetest.Must[[]byte](t)(os.ReadFile(src.Ref.Name))
			if same != nil && !bytes.Equal(data, same) {
				t.Errorf("%s: the same image gave other bytes", to)
			}
			same = data
			if !bytes.HasSuffix(data, make([]byte, 2*media.TarBlock)) {
				t.Errorf("%s: no end of the archive", to)
			}
		}
	}
	// The names that other tools know, each once.
	var layers, blobs string
	hexes := []string{imagetest.Must[*v1.Manifest](t)(imagetest.Open(t, dir+"/o1.tar").Image.Manifest()).Config.Digest.Hex, imagetest.Must[v1.Hash](t)(imagetest.Open(t, dir+"/o1.tar").Image.Digest()).Hex}
	for _, l := range imagetest.Must[[]v1.Layer](t)(img.Layers()) {
		hex := imagetest.Must[v1.Hash](t)(l.Digest()).Hex
		layers, hexes = layers+hex+".tar.gz ", append(hexes, hex)
	}
	slices.Sort(hexes)
	for _, hex := range hexes {
		blobs += "blobs/sha256/" + hex + " "
	}
	for file, want := range map[string]string{"d1.tar": strings.TrimPrefix(id, "sha256:") + ".json " + layers + "manifest.json", "o1.tar": "blobs/ blobs/sha256/ " + blobs + "index.json oci-layout"} {
		var names []string
		for _, m := range imagetest.ReadTar(t, bytes.NewReader(imagetest.Must[[]byte](t)(os.ReadFile(dir+"/"+file)))) {
			names = append(names, m.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
	got := imagetest.Must[v1.Image](t)(tarball.ImageFromPath(dir+"/d1.tar", nil))
	if h := imagetest.Must[v1.Hash](t)(got.ConfigName()); h.String() != id {
		t.Errorf("as go-containerregistry reads it: got %v, want %v", h, id)
	}
	imagetest.WantEmpty(t, dir, "d1.tar", "d2.tar", "o1.tar", "o2.tar")
}

// An archive is written whole, or the error is returned: at each of its blocks the room may end.
func TestArchiveFull(t *testing.T) {
	imagetest.CleanTemp(t)
	img := imagetest.TinyImage(t)
	o := imagetest.Fast.WithDefaults()
	for name, write := range map[string]func(w io.Writer) (v1.Hash, error){
		"docker": func(w io.Writer) (v1.Hash, error) { return media.WriteDockerTar(t.Context(), w, "a:1", img, o) },
		"oci": func(w io.Writer) (v1.Hash, error) {
			return media.WriteOCITar(t.Context(), w, "a:1", media.Result{Image: img}, o)
		},
	} {
		all := &imagetest.Room{Left: 1 << 20}
		if _, err := write(all); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < all.Took; n += media.TarBlock {
			if _, err := write(&imagetest.Room{Left: n}); !errors.Is(err, imagetest.ErrFull) {
				t.Errorf("%s: room for %d of %d bytes: got %v", name, n, all.Took, err)
			}
		}
	}
	if _, err := media.WriteDockerTar(t.Context(), io.Discard, "UPPER", img, o); err == nil {
		t.Error("a name in capital letters: no error")
	}
}

// Entries of an archive may be links to others, up to a number of them.
func TestArchiveLinks(t *testing.T) {
	imagetest.CleanTemp(t)
	img := imagetest.TinyImage(t)
	save := imagetest.ReadTar(t, bytes.NewReader(imagetest.DockerSave(t, img, "app:1")))
	chain := func(n int) []imagetest.TestMember {
		all := slices.Clone(save)
		at := slices.IndexFunc(all, func(m imagetest.TestMember) bool { return m.Name == "manifest.json" })
		all[at].Name = "d/0"
		for i := 1; i < n; i++ {
			all = append(all, imagetest.SymM(fmt.Sprint("d/", i), fmt.Sprint("./", i-1)))
		}
		return append(all, imagetest.LinkM("./manifest.json", fmt.Sprint("/d/", n-1)))
	}
	other := append(slices.Clone(save), imagetest.DirM("manifest.json"))
	for _, c := range []struct {
		name    string
		members []imagetest.TestMember
		says    string // "" for none
	}{
		{"one link", chain(1), ""}, {"all links", chain(media.MaxLinks - 1), ""}, {"a link more", chain(media.MaxLinks), "links"},
		{"a directory of the name", other, ""},
	} {
		path := imagetest.Write(t, t.TempDir()+"/x.tar", imagetest.TarMembers(t, c.members...))
		if c.says != "" {
			imagetest.WantErr(t, imagetest.OpenErr(t, "docker-archive:"+path), hinterr.ErrDamaged, c.says)
			continue
		}
		imagetest.SameImage(t, imagetest.Open(t, "docker-archive:"+path).Image, img)
	}
}

// A layer that is there twice is written once, an empty one is a layer, and the names of compressed layers need not be digests.
func TestArchiveLayers(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	layers := imagetest.Must[[]v1.Layer](t)(imagetest.TinyImage(t).Layers())
	none := v1.Hash{Algorithm: "sha256", Hex: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
	img := imagetest.ImageOf(t, layers[0], layers[1], layers[0], plainLayer{imagetest.BlobLayer{Layer: static.NewLayer(nil, types.DockerUncompressedLayer), ID: none}})
	var notes imagetest.Notes
	o := media.Options{Options: registry.Options{Progress: &notes}}
	if _, err := sources.Put(t.Context(), media.Ref{Transport: media.DockerArchive, Name: dir + "/x.tar"}, media.Result{Image: img, Index: imagetest.TinyIndex(t)}, o); err != nil {
		t.Fatal(err)
	}
	if len(notes.Text) != 1 || !strings.Contains(notes.Text[0], "a docker archive holds one platform") {
		t.Errorf("notes: %q", notes.Text)
	}
	members := imagetest.ReadTar(t, bytes.NewReader(imagetest.Must[[]byte](t)(os.ReadFile(dir+"/x.tar"))))
	if len(members) != 5 { // config, three layers, manifest.json
		t.Fatalf("got %d members", len(members))
	}
	if n := len(imagetest.Must[[]v1.Layer](t)(imagetest.Open(t, dir+"/x.tar").Image.Layers())); n != 4 {
		t.Errorf("got %d layers, want 4", n)
	}
	text := string(members[4].Body)
	for n, m := range members[1:4] {
		members[n+1].Name = fmt.Sprintf("l%d", n)
		text = strings.ReplaceAll(text, m.Name, fmt.Sprintf("l%d", n))
	}
	members[4].Body = []byte(text)
	other := imagetest.Open(t, imagetest.Write(t, dir+"/names.tar", imagetest.TarMembers(t, members...)))
	for n, l := range imagetest.Must[[]v1.Layer](t)(other.Image.Layers()) {
		want := imagetest.Must[v1.Hash](t)(imagetest.Must[[]v1.Layer](t)(img.Layers())[n].Digest())
		if got := imagetest.Must[v1.Hash](t)(l.Digest()); got != want {
			t.Errorf("layer %d: got %v, want %v", n, got, want)
		}
	}
}

// plainLayer is a layer that is not compressed.
type plainLayer struct{ imagetest.BlobLayer }

func (l plainLayer) Uncompressed() (io.ReadCloser, error) { return l.Compressed() }

// Plain layers of a docker archive stay plain in another one and are compressed for OCI, to
// the same bytes each time.
func TestArchiveConvert(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	img := imagetest.TinyImage(t)
	src := imagetest.Open(t, imagetest.Write(t, dir+"/save.tar", imagetest.DockerSave(t, img, "redis:2.8")))
	if l := imagetest.Must[[]v1.Layer](t)(src.Image.Layers())[0]; imagetest.Must[v1.Hash](t)(l.Digest()) != imagetest.Must[v1.Hash](t)(l.DiffID()) {
		t.Error("the layer is not plain")
	}
	imagetest.Put(t, "docker-archive:"+dir+"/again.tar", media.Result{Image: src.Image})
	a := imagetest.Put(t, "oci:"+dir+"/a", media.Result{Image: src.Image})
	b := imagetest.Put(t, "oci-archive:"+dir+"/b.tar", media.Result{Image: src.Image})
	if a.Digest != b.Digest {
		t.Errorf("got digests %s and %s", a.Digest, b.Digest)
	}
	for source, want := range map[string]types.MediaType{
		dir + "/again.tar": types.DockerUncompressedLayer, dir + "/a": types.OCILayer, dir + "/b.tar": types.OCILayer,
	} {
		got := imagetest.Open(t, source)
		imagetest.SameImage(t, got.Image, img)
		for _, l := range imagetest.Must[[]v1.Layer](t)(got.Image.Layers()) {
			if mt := imagetest.Must[types.MediaType](t)(l.MediaType()); mt != want {
				t.Errorf("%s: got %s, want %s", source, mt, want)
			}
		}
	}
}

// A zstd layer is unpacked for docker load, which reads it only since docker 23.
func TestArchiveZstdLayer(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	img := imagetest.TinyImage(t)
	d, c := dir+"/zstd", blob.Collection{}
	root, err := c.AddImage(img)
	if err != nil {
		t.Fatal(err)
	}
	m := imagetest.Must[*v1.Manifest](t)(img.Manifest()).DeepCopy()
	for n, l := range imagetest.Must[[]v1.Layer](t)(img.Layers()) {
		var plain bytes.Buffer
		plain.ReadFrom(imagetest.Must[io.ReadCloser](t)(l.Uncompressed()))
		packed := imagetest.ZstdOf(t, plain.Bytes())
		h, size, _ := v1.SHA256(bytes.NewReader(packed))
		m.Layers[n] = v1.Descriptor{MediaType: types.OCILayerZStd, Digest: h, Size: size}
		c.AddBytes(h, packed)
	}
	m.MediaType, m.Config.MediaType = types.OCIManifestSchema1, types.OCIConfigJSON
	raw := imagetest.Must[[]byte](t)(json.Marshal(m))
	root.Digest, root.Size, _ = v1.SHA256(bytes.NewReader(raw))
	root.MediaType = m.MediaType
	c.AddBytes(root.Digest, raw)
	if err := os.MkdirAll(d, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := media.NewLayout(context.Background(), d, c, root, media.Options{}.WithDefaults()); err != nil {
		t.Fatal(err)
	}
	src := imagetest.Open(t, d)
	imagetest.SameImage(t, src.Image, img)
	imagetest.Put(t, "docker-archive:"+dir+"/out.tar", media.Result{Image: src.Image})
	out := imagetest.Open(t, dir+"/out.tar")
	imagetest.SameImage(t, out.Image, img)
	if mt := imagetest.Must[types.MediaType](t)(imagetest.Must[[]v1.Layer](t)(out.Image.Layers())[0].MediaType()); mt != types.DockerUncompressedLayer {
		t.Errorf("media type: got %s", mt)
	}
}

func TestRecognise(t *testing.T) {
	imagetest.CleanTemp(t)
	imagetest.NoDaemon(t)
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/root/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	rootfs := imagetest.TarOf(t, "./bin/sh", "x", "manifest.json", "[]")
	for path, want := range map[string]media.Transport{
		dir + "/root": media.Dir,
		imagetest.Write(t, dir+"/rootfs.tar", rootfs):                                                 media.Plain,
		imagetest.Write(t, dir+"/rootfs.tar.gz", imagetest.GzipOf(t, rootfs)):                         media.Plain,
		imagetest.Write(t, dir+"/elf", []byte("\x7fELF\x02\x01\x01")):                                 media.Plain,
		imagetest.Write(t, dir+"/empty", nil):                                                         media.Plain,
		imagetest.Write(t, dir+"/text.gz", imagetest.GzipOf(t, []byte("text"))):                       media.Plain,
		imagetest.Write(t, dir+"/cut.tar", rootfs[:700]):                                              media.Plain,
		imagetest.Write(t, dir+"/broken.gz", []byte("\x1f\x8b\x08rest")):                              media.Plain,
		imagetest.Write(t, dir+"/save", imagetest.DockerSave(t, imagetest.TinyImage(t), "redis:2.8")): media.DockerArchive,
		imagetest.Write(t, dir+"/app.tar", imagetest.TarOf(t, "app/main", "x", "app/lib", "")):        media.Plain,
	} {
		src := imagetest.Open(t, path)
		if src.Ref.Transport != want || src.Ref.Guessed || (want == media.Dir || want == media.Plain) != (src.Path == path) || (src.Image != nil) == (src.Path != "") {
			t.Errorf("%s: got %+v, path %q, image %v", path, src.Ref, src.Path, src.Image)
		}
	}
	if src := imagetest.Open(t, "dir:"+dir+"/root"); src.Path != dir+"/root" {
		t.Errorf("dir: got %+v", src)
	}
	imagetest.WantErr(t, imagetest.OpenErr(t, dir+"/missing"), hinterr.ErrNotFound, "no such file")
	imagetest.WantErr(t, imagetest.OpenErr(t, "dir:"+dir+"/missing"), hinterr.ErrNotFound, "no such directory")
	imagetest.WantErr(t, imagetest.OpenErr(t, "dir:"+dir+"/elf"), nil, "not a directory")
	imagetest.WantErr(t, imagetest.OpenErr(t, "oci:"+dir+"/missing"), hinterr.ErrNotFound, "no such directory")
	imagetest.WantErr(t, imagetest.OpenErr(t, "oci-archive:"+dir+"/elf"), hinterr.ErrDamaged, "not a tar archive")
	text := imagetest.Write(t, dir+"/text", []byte(strings.Repeat("no tar\n", 500)))
	imagetest.WantErr(t, imagetest.OpenErr(t, "docker-archive:"+text), hinterr.ErrDamaged, text+": not a tar archive")
	imagetest.WantErr(t, imagetest.OpenErr(t, "docker-archive:"+dir+"/missing"), hinterr.ErrNotFound, "no such file")
}
