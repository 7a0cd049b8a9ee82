package images

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// dockerSave makes an archive as docker save wrote them from 1.10 to 24: a folder a layer,
// plain layers, and a symlink for a layer that is there twice.
func dockerSave(t testing.TB, img v1.Image, tags ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	m := archiveImage{RepoTags: tags}
	for n, l := range must[[]v1.Layer](t)(img.Layers()) {
		rc, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		var plain bytes.Buffer
		plain.ReadFrom(rc)
		id := strings.Repeat(string(rune('a'+n)), 64)
		for _, d := range []string{id + "/", ""} {
			if d != "" {
				tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o755})
			}
		}
		tarBytes(tw, id+"/VERSION", []byte("1.0"))
		tarBytes(tw, id+"/real", plain.Bytes())
		tw.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: id + "/layer.tar", Linkname: "../" + id + "/real"})
		m.Layers = append(m.Layers, id+"/layer.tar")
	}
	m.Config = must[v1.Hash](t)(img.ConfigName()).Hex + ".json"
	tarBytes(tw, m.Config, must[[]byte](t)(img.RawConfigFile()))
	tarBytes(tw, archiveManifest, must[[]byte](t)(json.Marshal([]archiveImage{m})))
	tarBytes(tw, archiveV1, []byte("{}"))
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDockerArchiveRead(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir()
	img := tinyImage(t)
	var ggcr bytes.Buffer
	if err := tarball.Write(name.MustParseReference("redis:2.8"), img, &ggcr); err != nil {
		t.Fatal(err)
	}
	save := dockerSave(t, img, "redis:2.8")
	for file, data := range map[string][]byte{
		"plain.tar":   save,
		"gzip.tar.gz": gzipOf(t, save),
		"zstd":        zstdOf(t, save),
		"ggcr.tar":    ggcr.Bytes(),
	} {
		path := write(t, dir+"/"+file, data)
		for _, source := range []string{path, "docker-archive:" + path, "docker-archive:" + path + ":docker.io/library/redis:2.8"} {
			src := open(t, source)
			if src.Ref.Transport != DockerArchive || !sameImageName(src.Ref.Tag, "redis:2.8") {
				t.Errorf("%s: got %+v", source, src.Ref)
			}
			if src.Digest != must[v1.Hash](t)(img.ConfigName()).String() {
				t.Errorf("%s: digest: got %s", source, src.Digest)
			}
			sameImage(t, src.Image, img)
		}
		err := openErr(t, "docker-archive:"+path+":redis:3")
		wantErr(t, err, ErrNotFound, `"redis:3"`)
		if h := hintOf(err); !strings.HasSuffix(h, "redis:2.8") {
			t.Errorf("hint: %q", h)
		}
	}
}

func zstdOf(t testing.TB, data []byte) []byte {
	t.Helper()
	z := must[*zstd.Encoder](t)(zstd.NewWriter(nil))
	return z.EncodeAll(data, nil)
}

// docker save from 25 on writes one archive that is both kinds.
func TestArchiveOfBothKinds(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir()
	img := tinyImage(t)
	put(t, "oci-archive:"+dir+"/oci.tar:2.8", Result{Image: img})
	tf := must[*tarFile](t)(openTar(context.Background(), dir+"/oci.tar", MediaOptions{}.withDefaults(), nil))
	defer tf.Close()
	m := archiveImage{RepoTags: []string{"redis:2.8"}, Config: blobEntry(must[v1.Hash](t)(img.ConfigName()))}
	for _, l := range must[[]v1.Layer](t)(img.Layers()) {
		m.Layers = append(m.Layers, blobEntry(must[v1.Hash](t)(l.Digest())))
	}
	both := bytes.TrimRight(must[[]byte](t)(os.ReadFile(dir+"/oci.tar")), "\x00")
	both = append(both, make([]byte, -len(both)&(tarBlock-1))...)
	more := tarOf(t, archiveManifest, string(must[[]byte](t)(json.Marshal([]archiveImage{m}))))
	path := write(t, dir+"/both.tar", append(both, more...))

	src := open(t, path)
	if src.Ref.Transport != DockerArchive {
		t.Errorf("guessed: got %+v", src.Ref)
	}
	sameImage(t, src.Image, img)
	sameImage(t, open(t, "oci-archive:"+path+":2.8").Image, img)
}

func TestArchiveWrite(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir()
	img := tinyImage(t)
	id := must[v1.Hash](t)(img.ConfigName()).String()
	for _, dest := range []string{"docker-archive:" + dir + "/d%.tar:redis:2.8-vfix", "oci-archive:" + dir + "/o%.tar:2.8"} {
		var same []byte
		for _, n := range []string{"1", "2"} {
			to := strings.Replace(dest, "%", n, 1)
			s := put(t, to, Result{Image: img})
			src := open(t, to)
			sameImage(t, src.Image, img)
			if src.Digest != s.Digest || s.Reference != to {
				t.Errorf("%s: got %+v, source has digest %s", to, s, src.Digest)
			}
			data := must[[]byte](t)(os.ReadFile(src.Ref.Name))
			if same != nil && !bytes.Equal(data, same) {
				t.Errorf("%s: the same image gave other bytes", to)
			}
			same = data
		}
	}
	got := must[v1.Image](t)(tarball.ImageFromPath(dir+"/d1.tar", nil))
	if h := must[v1.Hash](t)(got.ConfigName()); h.String() != id {
		t.Errorf("as go-containerregistry reads it: got %v, want %v", h, id)
	}
	wantEmpty(t, dir, "d1.tar", "d2.tar", "o1.tar", "o2.tar")
}

// Plain layers of a docker archive stay plain in another one and are compressed for OCI, to
// the same bytes each time.
func TestArchiveConvert(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir()
	img := tinyImage(t)
	src := open(t, write(t, dir+"/save.tar", dockerSave(t, img, "redis:2.8")))
	if l := must[[]v1.Layer](t)(src.Image.Layers())[0]; !l.(*storedLayer).Plain() {
		t.Error("the layer is not plain")
	}
	put(t, "docker-archive:"+dir+"/again.tar", Result{Image: src.Image})
	a := put(t, "oci:"+dir+"/a", Result{Image: src.Image})
	b := put(t, "oci-archive:"+dir+"/b.tar", Result{Image: src.Image})
	if a.Digest != b.Digest {
		t.Errorf("got digests %s and %s", a.Digest, b.Digest)
	}
	for source, want := range map[string]types.MediaType{
		dir + "/again.tar": types.DockerUncompressedLayer, dir + "/a": types.OCILayer, dir + "/b.tar": types.OCILayer,
	} {
		got := open(t, source)
		sameImage(t, got.Image, img)
		for _, l := range must[[]v1.Layer](t)(got.Image.Layers()) {
			if mt := must[types.MediaType](t)(l.MediaType()); mt != want {
				t.Errorf("%s: got %s, want %s", source, mt, want)
			}
		}
	}
}

// A zstd layer is unpacked for docker load, which reads it only since docker 23.
func TestArchiveZstdLayer(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir()
	img := tinyImage(t)
	d, c := dir+"/zstd", collection{}
	root, err := c.addImage(img)
	if err != nil {
		t.Fatal(err)
	}
	m := must[*v1.Manifest](t)(img.Manifest()).DeepCopy()
	for n, l := range must[[]v1.Layer](t)(img.Layers()) {
		var plain bytes.Buffer
		plain.ReadFrom(must2(l.Uncompressed()))
		packed := zstdOf(t, plain.Bytes())
		h, size, _ := v1.SHA256(bytes.NewReader(packed))
		m.Layers[n] = v1.Descriptor{MediaType: types.OCILayerZStd, Digest: h, Size: size}
		c.addBytes(h, packed)
	}
	m.MediaType, m.Config.MediaType = types.OCIManifestSchema1, types.OCIConfigJSON
	raw := must[[]byte](t)(json.Marshal(m))
	root.Digest, root.Size, _ = v1.SHA256(bytes.NewReader(raw))
	root.MediaType = m.MediaType
	c.addBytes(root.Digest, raw)
	if err := os.MkdirAll(d+"/packed", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := newLayout(context.Background(), d+"2", d, d+"/packed", c, root, MediaOptions{}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	src := open(t, d+"2")
	sameImage(t, src.Image, img)
	put(t, "docker-archive:"+dir+"/out.tar", Result{Image: src.Image})
	out := open(t, dir+"/out.tar")
	sameImage(t, out.Image, img)
	if mt := must[types.MediaType](t)(must[[]v1.Layer](t)(out.Image.Layers())[0].MediaType()); mt != types.DockerUncompressedLayer {
		t.Errorf("media type: got %s", mt)
	}
}

func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestRecognise(t *testing.T) {
	cleanTemp(t)
	noDaemon(t)
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/root/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	rootfs := tarOf(t, "./bin/sh", "x", "manifest.json", "[]")
	for path, want := range map[string]Transport{
		dir + "/root":                                                      Dir,
		write(t, dir+"/rootfs.tar", rootfs):                                Plain,
		write(t, dir+"/rootfs.tar.gz", gzipOf(t, rootfs)):                  Plain,
		write(t, dir+"/elf", []byte("\x7fELF\x02\x01\x01")):                Plain,
		write(t, dir+"/empty", nil):                                        Plain,
		write(t, dir+"/text.gz", gzipOf(t, []byte("text"))):                Plain,
		write(t, dir+"/cut.tar", rootfs[:700]):                             Plain,
		write(t, dir+"/broken.gz", []byte("\x1f\x8b\x08rest")):             Plain,
		write(t, dir+"/save", dockerSave(t, tinyImage(t), "redis:2.8")):    DockerArchive,
		write(t, dir+"/app.tar", tarOf(t, "app/main", "x", "app/lib", "")): Plain,
	} {
		src := open(t, path)
		if src.Ref.Transport != want || src.Ref.Guessed || (want == Dir || want == Plain) != (src.Path == path) || (src.Image != nil) == (src.Path != "") {
			t.Errorf("%s: got %+v, path %q, image %v", path, src.Ref, src.Path, src.Image)
		}
	}
	if src := open(t, "dir:"+dir+"/root"); src.Path != dir+"/root" {
		t.Errorf("dir: got %+v", src)
	}
	wantErr(t, openErr(t, dir+"/missing"), ErrNotFound, "no such file")
	wantErr(t, openErr(t, "dir:"+dir+"/missing"), ErrNotFound, "no such folder")
	wantErr(t, openErr(t, "dir:"+dir+"/elf"), nil, "not a folder")
	wantErr(t, openErr(t, "oci:"+dir+"/missing"), ErrNotFound, "no such folder")
	wantErr(t, openErr(t, "oci-archive:"+dir+"/elf"), nil, "not a tar archive")
	wantErr(t, openErr(t, "docker-archive:"+dir+"/missing"), ErrNotFound, "no such file")
}
