package source_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/klauspost/compress/zstd"

	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// fast makes the pauses between tries short.
var fast = source.Options{Pause: time.Millisecond}

// must returns v, or ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// tarOf makes a tar stream of names and contents; a name that ends in a slash is a directory.
func tarOf(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for n := 0; n < len(files); n += 2 {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: files[n], Size: int64(len(files[n+1])), Mode: 0o644, ModTime: time.Unix(1, 0)}
		if strings.HasSuffix(h.Name, "/") {
			h.Typeflag, h.Mode, h.Size = tar.TypeDir, 0o755, 0
		}
		if to, is := strings.CutPrefix(files[n+1], "-> "); is {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, to, 0
		}
		if to, is := strings.CutPrefix(files[n+1], "=> "); is {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, to, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			io.WriteString(w, files[n+1])
		}
	}
	w.Close()
	return b.Bytes()
}

func gz(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

// imageOf makes an image of layers, given as tar streams.
func imageOf(t testing.TB, platform string, layers ...[]byte) v1.Image {
	t.Helper()
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	for _, raw := range layers {
		l := must(tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }, tarball.WithMediaType(types.OCILayer)))(t)
		img = must(mutate.Append(img, mutate.Addendum{Layer: l, MediaType: types.OCILayer}))(t)
	}
	p := must(v1.ParsePlatform(platform))(t)
	cf := must(img.ConfigFile())(t).DeepCopy()
	cf.OS, cf.Architecture, cf.Variant = p.OS, p.Architecture, p.Variant
	return must(mutate.ConfigFile(img, cf))(t)
}

// layoutOf writes images into a new layout, under their tags.
func layoutOf(t testing.TB, images map[string]v1.Image) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lay")
	for tag, img := range images {
		if _, err := source.Put(t.Context(), source.Ref{Transport: source.OCILayout, Name: dir, Tag: tag}, source.Result{Image: img}, fast); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t testing.TB, name string, o source.Options) *source.Source {
	t.Helper()
	s, err := source.Open(t.Context(), name, o)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, dest string, r source.Result, o source.Options) source.Stored {
	t.Helper()
	st, err := source.Put(t.Context(), must(source.ParseRef(dest))(t), r, o)
	if err != nil {
		t.Fatalf("put %s: %v", dest, err)
	}
	return st
}

func diffIDs(t testing.TB, img v1.Image) string {
	t.Helper()
	return string(must(json.Marshal(must(img.ConfigFile())(t).RootFS.DiffIDs))(t))
}

// Every place holds the same layers, and each result is valid.
func TestRoundTrips(t *testing.T) {
	noEngine(t)
	img := imageOf(t, "linux/amd64", tarOf(t, "etc/", "", "etc/a", strings.Repeat("one", 1000)), tarOf(t, "etc/b", "two"))
	host := registry(t, nil)
	at := t.TempDir()
	last := "oci:" + layoutOf(t, map[string]v1.Image{"x:1": img}) + ":x:1"
	want := must(img.Digest())(t).String()
	for _, dest := range []string{
		"oci:" + at + "/lay:x:1", "oci-archive:" + at + "/oci.tar:x:1", "docker://" + host + "/x:1",
		"docker-archive:" + at + "/docker.tar:x:1", "docker://" + host + "/y:1", "oci-archive:" + at + "/again.tar",
	} {
		src := open(t, last, fast)
		put(t, dest, source.Result{Image: src.Image, Source: src.Ref}, fast)
		got := open(t, dest, fast)
		if got, want := diffIDs(t, got.Image), diffIDs(t, img); got != want {
			t.Errorf("%s: got the diff IDs %s, want %s", dest, got, want)
		}
		if err := validate.Image(got.Image); err != nil {
			t.Errorf("%s: %v", dest, err)
		}
		if d := must(got.Image.Digest())(t).String(); d != want && !strings.Contains(last+dest, "docker-archive") && !strings.Contains(dest, "again") && !strings.Contains(dest, "/y:1") {
			t.Errorf("%s: got the digest %s, want %s", dest, d, want)
		}
		last = dest
	}
}

// The names by which an image of several in a layout or archive can be given, without a prefix too.
func TestSeveralImages(t *testing.T) {
	noEngine(t)
	a, b := imageOf(t, "linux/amd64", tarOf(t, "a", "a")), imageOf(t, "linux/amd64", tarOf(t, "b", "b"))
	dir := layoutOf(t, map[string]v1.Image{"redis": a, "nginx": b})
	put(t, "oci:"+dir+":nginx:1", source.Result{Image: b}, fast)
	_, err := source.Open(t.Context(), dir, fast)
	if hint := hinterr.HintOf(err); !errors.Is(err, source.ErrSeveral) || !strings.Contains(err.Error(), ": 2 images: ") || !strings.Contains(hint, "redis") || !strings.HasSuffix(hint, " nginx:1") {
		t.Fatalf("without a tag: got %v, hint %q", err, hinterr.HintOf(err))
	}
	for tag, want := range map[string]v1.Image{"redis": a, "nginx": b} {
		for _, name := range []string{dir + ":" + tag, "oci:" + dir + ":" + tag} {
			if got := open(t, name, fast); diffIDs(t, got.Image) != diffIDs(t, want) || got.Ref.Tag != tag || got.Ref.Transport != source.OCILayout {
				t.Errorf("%s: got %+v", name, got.Ref)
			}
		}
	}
	// A name relative to the current directory looks like the name of an image.
	t.Chdir(filepath.Dir(dir))
	if got := open(t, "lay:redis", fast); diffIDs(t, got.Image) != diffIDs(t, a) {
		t.Errorf("lay:redis: got %+v", got.Ref)
	}
	if d, err := source.ResolveDest(source.Ref{Name: "lay:new"}); err != nil || d != (source.Ref{Transport: source.OCILayout, Name: "lay", Tag: "new"}) {
		t.Errorf("-o lay:new: got %+v, %v", d, err)
	}
	if _, err := source.Open(t.Context(), "lay:mysql", fast); err == nil || !strings.Contains(err.Error(), `no image with the tag "mysql"`) {
		t.Errorf("lay:mysql: got %v", err)
	}
}

// A docker archive always has a name, or engines load an image that cannot be run by one.
func TestDockerArchiveHasName(t *testing.T) {
	noEngine(t)
	img := imageOf(t, "linux/amd64", tarOf(t, "a", "a"))
	file := filepath.Join(t.TempDir(), "a.tar")
	for _, c := range []struct{ dest, from, want string }{
		{"docker-archive:" + file, "docker-archive:old.tar:redis:2.8", "redis:2.8-vfix"},
		{"docker-archive:" + file, "old/Redis.tar.gz", "redis:latest-vfix"},
		{"docker-archive:" + file + ":mine:1", "docker-archive:old.tar:redis:2.8", "mine:1"},
	} {
		put(t, c.dest, source.Result{Image: img, Source: must(source.ParseRef(c.from))(t)}, fast)
		if got := open(t, "docker-archive:"+file, fast); got.Ref.Tag != c.want {
			t.Errorf("%s from %s: got the tag %q, want %q", c.dest, c.from, got.Ref.Tag, c.want)
		}
	}
}

// Old engines read no zstd: in a docker archive such a layer is gzip. Those of pzstd begin with a skippable frame.
func TestDockerArchiveZstd(t *testing.T) {
	noEngine(t)
	plain := tarOf(t, "a", "a")
	w := must(zstd.NewWriter(nil))(t)
	for name, before := range map[string]string{"zstd": "", "pzstd": "\x50\x2a\x4d\x18\x04\x00\x00\x00\x07\x00\x00\x00"} {
		l := static.NewLayer(w.EncodeAll(plain, []byte(before)), types.OCILayerZStd)
		img := must(mutate.Append(imageOf(t, "linux/amd64"), mutate.Addendum{Layer: l, MediaType: types.OCILayerZStd}))(t)
		cf := must(img.ConfigFile())(t).DeepCopy()
		sum, _, err := v1.SHA256(bytes.NewReader(plain))
		if err != nil {
			t.Fatal(err)
		}
		cf.RootFS.DiffIDs = []v1.Hash{sum}
		lay := layoutOf(t, map[string]v1.Image{"x:1": must(mutate.ConfigFile(img, cf))(t)})
		file := "docker-archive:" + filepath.Join(t.TempDir(), "a.tar")
		put(t, file+":x:1", source.Result{Image: open(t, lay, fast).Image}, fast)
		got := open(t, file, fast).Image
		if err := validate.Image(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := must(got.Manifest())(t).Layers[0]; d.MediaType != types.DockerLayer {
			t.Errorf("%s: got %+v", name, d)
		}
	}
}

// docker save of newer engines names each entry by its digest, also a compressed layer.
func TestDockerArchiveBlobs(t *testing.T) {
	noEngine(t)
	img := imageOf(t, "linux/amd64", tarOf(t, "a", strings.Repeat("a", 1000)))
	packed := must(io.ReadAll(must(must(img.Layers())(t)[0].Compressed())(t)))(t)
	layer, config := "blobs/sha256/"+must(must(img.Layers())(t)[0].Digest())(t).Hex, "blobs/sha256/"+must(img.ConfigName())(t).Hex
	list := fmt.Sprintf(`[{"Config":%q,"RepoTags":["x:1"],"Layers":[%q]}]`, config, layer)
	flipped := bytes.Clone(packed)
	flipped[len(flipped)/2] ^= 1
	for text, want := range map[string]string{string(packed): "", string(flipped): "does not match its digest"} {
		file := filepath.Join(t.TempDir(), "a.tar")
		os.WriteFile(file, tarOf(t, "manifest.json", list, config, string(must(img.RawConfigFile())(t)), layer, text), 0o644)
		got := open(t, file, fast).Image
		_, err := io.Copy(io.Discard, must(must(got.Layers())(t)[0].Compressed())(t))
		if (err == nil) != (want == "") || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A damaged layout is found out before anything is written.
func TestDamagedLayout(t *testing.T) {
	noEngine(t)
	img := imageOf(t, "linux/amd64", tarOf(t, "a", strings.Repeat("a", 10000)))
	layer := must(must(img.Layers())(t)[0].Digest())(t)
	manifest := must(img.Digest())(t)
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	for name, c := range map[string]struct {
		blob v1.Hash
		to   func([]byte) []byte
		want string
	}{
		"layer flipped":     {layer, flip, "does not match its digest"},
		"layer cut":         {layer, func(b []byte) []byte { return b[:len(b)-1] }, "bytes, want"},
		"layer longer":      {layer, func(b []byte) []byte { return append(b, 0) }, "more than"},
		"manifest flipped":  {manifest, flip, manifest.String()},
		"layer missing":     {layer, nil, "copy or download it again"},
		"manifest missing":  {manifest, nil, "copy or download it again"},
		"nothing, positive": {layer, func(b []byte) []byte { return b }, ""},
	} {
		dir := layoutOf(t, map[string]v1.Image{"x": img})
		path := filepath.Join(dir, "blobs", "sha256", c.blob.Hex)
		if c.to == nil {
			os.Remove(path)
		} else if err := os.WriteFile(path, c.to(must(os.ReadFile(path))(t)), 0o644); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		src, err := source.Open(t.Context(), "oci:"+dir, fast)
		if err == nil {
			_, err = source.Put(t.Context(), source.Ref{Transport: source.OCILayout, Name: out}, source.Result{Image: src.Image}, fast)
		}
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error()+hinterr.HintOf(err), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		left(t, filepath.Dir(out))
	}
}

// left fails the test if a directory has an entry.
func left(t testing.TB, dir string) {
	t.Helper()
	for _, e := range must(os.ReadDir(dir))(t) {
		t.Errorf("%s was left", e.Name())
	}
}

// Adding to a layout replaces the image of the same tag and keeps the others, with members that vfix does not know.
func TestExtendLayout(t *testing.T) {
	noEngine(t)
	a, b, c := imageOf(t, "linux/amd64", tarOf(t, "a", "a")), imageOf(t, "linux/amd64", tarOf(t, "b", "b")), imageOf(t, "linux/amd64", tarOf(t, "c", "c"))
	dir := layoutOf(t, map[string]v1.Image{"one": a, "two": b})
	index := filepath.Join(dir, "index.json")
	text := strings.Replace(string(must(os.ReadFile(index))(t)), `"size":`, `"x-unknown":"kept","size":`, 2)
	if err := os.WriteFile(index, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	put(t, "oci:"+dir+":two", source.Result{Image: c}, fast)
	for tag, want := range map[string]v1.Image{"one": a, "two": c} {
		if got := open(t, "oci:"+dir+":"+tag, fast); diffIDs(t, got.Image) != diffIDs(t, want) {
			t.Errorf("%s: got another image", tag)
		}
	}
	if n := strings.Count(string(must(os.ReadFile(index))(t)), "x-unknown"); n != 1 {
		t.Errorf("the entry that stays has %d of its unknown members, want 1", n)
	}
	other := t.TempDir()
	os.WriteFile(filepath.Join(other, "file"), nil, 0o644)
	if _, err := source.Put(t.Context(), source.Ref{Transport: source.OCILayout, Name: other}, source.Result{Image: a}, fast); err == nil {
		t.Error("a directory that is not a layout was written to")
	}
}

// Of an index the platform's image is taken; the others go with it, and the attestation about the replaced one goes.
func TestReplaceInIndex(t *testing.T) {
	noEngine(t)
	amd, arm, next := imageOf(t, "linux/amd64", tarOf(t, "a", "a")), imageOf(t, "linux/arm64", tarOf(t, "b", "b")), imageOf(t, "linux/amd64", tarOf(t, "n", "n"))
	proof := imageOf(t, "unknown/unknown", tarOf(t, "p", "p"))
	idx := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: amd, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}, Annotations: map[string]string{"k": "v"}}},
		mutate.IndexAddendum{Add: proof, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}, Annotations: map[string]string{
			source.AttestationKey: "attestation-manifest", source.AttestationSubject: must(amd.Digest())(t).String(),
		}}})
	dir := filepath.Join(t.TempDir(), "lay")
	p := must(layout.Write(dir, empty.Index))(t)
	if err := p.AppendIndex(idx); err != nil {
		t.Fatal(err)
	}
	src := open(t, dir, fast)
	if src.Index == nil || src.Entry.Digest != must(amd.Digest())(t) {
		t.Fatalf("got %+v", src.Entry)
	}
	out := must(source.ReplaceInIndex(src.Index, src.Entry, next))(t)
	for _, dest := range []string{"oci:" + t.TempDir() + "/new:x", "docker://" + registry(t, nil) + "/x:1"} {
		notes := &noted{}
		put(t, dest, source.Result{Image: next, Index: out}, source.Options{Progress: notes})
		if text := strings.Join(notes.all, "\n"); !strings.Contains(text, "attestation manifest "+must(proof.Digest())(t).String()) {
			t.Errorf("%s: got the notes %s", dest, text)
		}
		got := open(t, dest, fast)
		if err := validate.Index(got.Index); err != nil {
			t.Errorf("%s: %v", dest, err)
		}
		m := must(got.Index.IndexManifest())(t).Manifests
		if len(m) != 2 || m[0].Digest != must(arm.Digest())(t) || m[1].Digest != must(next.Digest())(t) || m[1].Annotations["k"] != "v" || m[1].Platform.Architecture != "amd64" {
			t.Errorf("%s: got %+v", dest, m)
		}
	}
	if _, err := source.Open(t.Context(), dir, source.Options{Platform: v1.Platform{OS: "linux", Architecture: "s390x"}}); !errors.Is(err, hinterr.ErrPlatform) || !strings.Contains(err.Error(), "linux/arm64") {
		t.Errorf("s390x: got %v", err)
	}
	// An image of which index.json has no platform may be the one that is meant.
	if err := p.AppendImage(next); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Open(t.Context(), dir, fast); !errors.Is(err, source.ErrSeveral) {
		t.Errorf("beside an image: got %v", err)
	}
}

// An image that an index lists but a layout does not have, or not all of, stays listed; the platform's own must be whole.
func TestPartsOfIndex(t *testing.T) {
	noEngine(t)
	amd, arm := imageOf(t, "linux/amd64", tarOf(t, "a", "a")), imageOf(t, "linux/arm64", tarOf(t, "b", "b"))
	idx := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: amd, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	layerOf := func(img v1.Image) v1.Hash { return must(must(img.Layers())(t)[0].Digest())(t) }
	for name, c := range map[string]struct {
		missing v1.Hash
		ok      bool
	}{
		"nothing": {v1.Hash{Hex: "none"}, true}, "a manifest": {must(arm.Digest())(t), true}, "a config": {must(arm.ConfigName())(t), true},
		"a layer": {layerOf(arm), true}, "a layer of the platform's": {layerOf(amd), false},
	} {
		dir, at := filepath.Join(t.TempDir(), "lay"), t.TempDir()
		if err := must(layout.Write(dir, empty.Index))(t).AppendIndex(idx); err != nil {
			t.Fatal(err)
		}
		src := open(t, dir, fast)
		os.Remove(filepath.Join(dir, "blobs/sha256", c.missing.Hex))
		for _, dest := range []string{"oci:" + at + "/lay:x", "oci-archive:" + at + "/x.tar"} {
			_, err := source.Put(t.Context(), must(source.ParseRef(dest))(t), source.Result{Image: src.Image, Index: src.Index}, fast)
			if (err == nil) != c.ok || !c.ok && !strings.Contains(err.Error(), c.missing.String()) {
				t.Errorf("%s is missing, %s: got %v", name, dest, err)
			}
			if c.ok {
				got := must(open(t, dest, fast).Index.IndexManifest())(t)
				if len(got.Manifests) != 2 {
					t.Errorf("%s is missing, %s: got %+v", name, dest, got)
				}
			}
		}
		if !c.ok {
			left(t, at)
		}
	}
}

// noted keeps the notes of a run.
type noted struct {
	progress.Silent
	all []string
}

func (n *noted) Note(format string, args ...any) { n.all = append(n.all, fmt.Sprintf(format, args...)) }

// The lowest level of x86-64 is taken, unless another one is requested.
func TestPlatformLevels(t *testing.T) {
	idx := v1.ImageIndex(mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	for _, level := range []string{"v3", "v2", "v1"} {
		img := imageOf(t, "linux/amd64/"+level, tarOf(t, level, level))
		idx = mutate.AppendManifests(idx, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64", Variant: level}}})
	}
	dir := filepath.Join(t.TempDir(), "lay")
	if err := must(layout.Write(dir, empty.Index))(t).AppendIndex(idx); err != nil {
		t.Fatal(err)
	}
	for want, level := range map[string]string{"v1": "", "v2": "v2"} {
		if got := open(t, dir, source.Options{Platform: v1.Platform{Variant: level}}).Entry.Platform.Variant; got != want {
			t.Errorf("%s: got %s, want %s", level, got, want)
		}
	}
	if _, err := source.Open(t.Context(), dir, source.Options{Platform: v1.Platform{Variant: "v4"}}); !errors.Is(err, hinterr.ErrPlatform) {
		t.Errorf("a level that the index does not have: got %v", err)
	}
}

// noEngine lets no engine of the machine take part.
func noEngine(t *testing.T) {
	t.Helper()
	t.Setenv("DOCKER_HOST", "unix:///nonexistent")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_AUTH_FILE", "")
}

// Stdin and pipes are read once, and recognized by their content as files are.
func TestStream(t *testing.T) {
	noEngine(t)
	img := imageOf(t, "linux/amd64", tarOf(t, "a", "a"))
	file := filepath.Join(t.TempDir(), "a.tar")
	put(t, "docker-archive:"+file+":x:1", source.Result{Image: img}, fast)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		w.Write(gz(must(os.ReadFile(file))(t)))
		w.Close()
	}()
	old := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = old }()
	src := open(t, "-", fast)
	if diffIDs(t, src.Image) != diffIDs(t, img) || src.Ref.Tag != "x:1" || src.Ref.Name != "-" {
		t.Errorf("got %+v", src.Ref)
	}
	// What is no image, and a root filesystem: no message names the temporary file.
	for text, want := range map[string]string{"not an archive": "-: not an image: patch files, directories and tarballs with: vfix patch -o COPY FILE", string(tarOf(t, ".wh.a", "a")): "stdin: .wh.a: "} {
		in := filepath.Join(t.TempDir(), "in")
		if err := os.WriteFile(in, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Stdin = must(os.Open(in))(t)
		err := source.WithRootImage(t.Context(), open(t, "-", fast), nil, fast)
		if err == nil || !strings.HasPrefix(err.Error()+": "+hinterr.HintOf(err), want) {
			t.Errorf("got %v: %s, want %s", err, hinterr.HintOf(err), want)
		}
	}
	os.Stdin = must(os.Open(os.DevNull))(t)
	if _, err := source.Open(t.Context(), "-", fast); err == nil || !strings.HasPrefix(err.Error(), "stdin: empty") {
		t.Errorf("nothing: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var hangs *os.File
	os.Stdin, hangs, err = os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	cancel()
	if _, err := source.Open(ctx, "-", fast); !errors.Is(err, context.Canceled) {
		t.Errorf("a writer that does not end: got %v", err)
	}
}
