package media_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// badLayout is a sound layout, in a directory of its own, that a test then spoils.
type badLayout struct {
	t                        testing.TB
	dir                      string
	manifest, config, layer0 v1.Hash
}

func newBadLayout(t testing.TB) *badLayout {
	t.Helper()
	b := &badLayout{t: t, dir: t.TempDir() + "/out"}
	imagetest.Put(t, "oci:"+b.dir, media.Result{Image: imagetest.TinyImage(t)})
	src := imagetest.Open(t, b.dir)
	b.manifest = imagetest.Must[v1.Hash](t)(src.Image.Digest())
	b.config = imagetest.Must[v1.Hash](t)(src.Image.ConfigName())
	b.layer0 = imagetest.Must[v1.Hash](t)(imagetest.Must[[]v1.Layer](t)(src.Image.Layers())[0].Digest())
	return b
}

func (b *badLayout) read(h v1.Hash) []byte {
	return imagetest.Must[[]byte](b.t)(os.ReadFile(media.LayoutBlobs{Dir: b.dir}.Path(h)))
}

func (b *badLayout) overwrite(h v1.Hash, data []byte) {
	imagetest.Write(b.t, media.LayoutBlobs{Dir: b.dir}.Path(h), data)
}

// remanifest changes the manifest and names the result as index.json's only entry, so that
// nothing is wrong but what edit did.
func (b *badLayout) remanifest(edit func(m *v1.Manifest)) {
	b.t.Helper()
	var m v1.Manifest
	if err := json.Unmarshal(b.read(b.manifest), &m); err != nil {
		b.t.Fatal(err)
	}
	edit(&m)
	raw := imagetest.Must[[]byte](b.t)(json.Marshal(m))
	h, size, _ := v1.SHA256(bytes.NewReader(raw))
	b.overwrite(h, raw)
	b.manifest = h
	b.reindex(v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: size, Digest: h})
}

// rewrite replaces text of the manifest.
func (b *badLayout) rewrite(old, text string) {
	raw := bytes.ReplaceAll(b.read(b.manifest), []byte(old), []byte(text))
	h, n, _ := v1.SHA256(bytes.NewReader(raw))
	b.overwrite(h, raw)
	b.reindex(v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: h, Size: n})
}

// reconfig changes the config in the same way.
func (b *badLayout) reconfig(edit func(cf *v1.ConfigFile)) {
	b.t.Helper()
	var cf v1.ConfigFile
	if err := json.Unmarshal(b.read(b.config), &cf); err != nil {
		b.t.Fatal(err)
	}
	edit(&cf)
	raw := imagetest.Must[[]byte](b.t)(json.Marshal(cf))
	h, size, _ := v1.SHA256(bytes.NewReader(raw))
	b.overwrite(h, raw)
	b.remanifest(func(m *v1.Manifest) { m.Config.Digest, m.Config.Size = h, size })
}

func (b *badLayout) reindex(ds ...v1.Descriptor) {
	raw := imagetest.Must[[]byte](b.t)(json.Marshal(v1.IndexManifest{SchemaVersion: 2, Manifests: ds}))
	imagetest.Write(b.t, b.dir+"/index.json", raw)
}

func (b *badLayout) entry() v1.Descriptor {
	return v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: b.manifest, Size: int64(len(b.read(b.manifest)))}
}

var hostileLayouts = map[string]struct {
	spoil func(b *badLayout)
	kind  error
	says  string
}{
	"nothing":                  {func(b *badLayout) { b.remanifest(func(*v1.Manifest) {}) }, nil, ""},
	"manifest: changed":        {func(b *badLayout) { m := b.read(b.manifest); m[5] ^= 1; b.overwrite(b.manifest, m) }, hinterr.ErrDamaged, "manifest: blob "},
	"manifest: wrong size":     {func(b *badLayout) { e := b.entry(); e.Size++; b.reindex(e) }, hinterr.ErrDamaged, "want"},
	"manifest: huge":           {func(b *badLayout) { e := b.entry(); e.Size = blob.MaxManifest + 1; b.reindex(e) }, hinterr.ErrDamaged, "want at most"},
	"manifest: negative size":  {func(b *badLayout) { e := b.entry(); e.Size = -1; b.reindex(e) }, hinterr.ErrDamaged, "want at most"},
	"manifest: other type":     {func(b *badLayout) { e := b.entry(); e.MediaType = types.DockerManifestSchema2; b.reindex(e) }, hinterr.ErrDamaged, "media type"},
	"manifest: index as image": {func(b *badLayout) { e := b.entry(); e.MediaType = types.OCIImageIndex; b.reindex(e) }, hinterr.ErrDamaged, "media type"},
	"manifest: no image":       {func(b *badLayout) { e := b.entry(); e.MediaType = "text/plain"; b.reindex(e) }, hinterr.ErrUnsupported, "text/plain"},
	"manifest: schema 1":       {func(b *badLayout) { e := b.entry(); e.MediaType = types.DockerManifestSchema1Signed; b.reindex(e) }, hinterr.ErrDamaged, "schema 1 manifest: got version 2"},
	"manifest: missing":        {func(b *badLayout) { os.Remove(media.LayoutBlobs{Dir: b.dir}.Path(b.manifest)) }, hinterr.ErrNotFound, "no blob sha256:"},
	"manifest: not JSON": {func(b *badLayout) {
		h, n, _ := v1.SHA256(strings.NewReader("{"))
		b.overwrite(h, []byte("{"))
		b.reindex(v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: h, Size: n})
	}, hinterr.ErrDamaged, "unexpected end"},
	"manifest: directory": {func(b *badLayout) {
		p := media.LayoutBlobs{Dir: b.dir}.Path(b.manifest)
		os.Remove(p)
		os.Mkdir(p, 0o755)
	}, hinterr.ErrDamaged, "not a regular file"},
	"config: changed":     {func(b *badLayout) { c := b.read(b.config); c[5] ^= 1; b.overwrite(b.config, c) }, hinterr.ErrDamaged, "config"},
	"config: huge":        {func(b *badLayout) { b.remanifest(func(m *v1.Manifest) { m.Config.Size = blob.MaxConfig + 1 }) }, hinterr.ErrDamaged, "want at most"},
	"config: no diff IDs": {func(b *badLayout) { b.reconfig(func(cf *v1.ConfigFile) { cf.RootFS.DiffIDs = nil }) }, hinterr.ErrDamaged, "got 0 diff IDs, want 2"},
	"config: more diff IDs": {func(b *badLayout) {
		b.reconfig(func(cf *v1.ConfigFile) { cf.RootFS.DiffIDs = append(cf.RootFS.DiffIDs, b.config) })
	}, hinterr.ErrDamaged, "got 3 diff IDs, want 2"},
	"config: of an artifact": {func(b *badLayout) {
		b.reconfig(func(cf *v1.ConfigFile) { *cf = v1.ConfigFile{} })
		b.remanifest(func(m *v1.Manifest) { m.Config.MediaType = "application/vnd.cncf.helm.config.v1+json" })
	}, hinterr.ErrUnsupported, "is an artifact with a config of type application/vnd.cncf.helm.config.v1+json, not an image"},
	"config: other platform": {func(b *badLayout) { b.reconfig(func(cf *v1.ConfigFile) { cf.Architecture = "arm64" }) }, hinterr.ErrPlatform, "is for linux/arm64, want linux/amd64"},
	"layer: negative size":   {func(b *badLayout) { b.remanifest(func(m *v1.Manifest) { m.Layers[1].Size = -5 }) }, hinterr.ErrDamaged, "layer 1: -5 bytes"},
	"layer: digest ../..":    {func(b *badLayout) { b.rewrite(b.layer0.Hex, "../../../../../../etc/passwd") }, hinterr.ErrDamaged, "hash"},
	"layer: no digest":       {func(b *badLayout) { b.rewrite(`"digest":"`+b.layer0.String()+`"`, `"x":1`) }, hinterr.ErrDamaged, "layer 0 has no digest"},
	"config: no digest":      {func(b *badLayout) { b.rewrite(`"digest":"`+b.config.String()+`"`, `"x":1`) }, hinterr.ErrDamaged, "without the digest of a config"},
	"config: other system":   {func(b *badLayout) { b.reconfig(func(cf *v1.ConfigFile) { cf.OS = "windows" }) }, hinterr.ErrPlatform, "is for windows/amd64, want linux/amd64"},
	"config: no system":      {func(b *badLayout) { b.reconfig(func(cf *v1.ConfigFile) { cf.OS = "" }) }, hinterr.ErrPlatform, "want linux/amd64"},
	"two images, one missing": {func(b *badLayout) {
		no := b.entry()
		no.Digest = b.layer0
		b.reindex(b.entry(), no)
	}, hinterr.ErrDamaged, "manifest"},
	"two images without names": {func(b *badLayout) {
		one := b.entry()
		b.remanifest(func(m *v1.Manifest) { m.Annotations = map[string]string{"a": "b"} })
		b.reindex(one, b.entry())
	}, media.ErrSeveral, "2 images: name one of them"},
	"oci-layout: no JSON": {func(b *badLayout) { imagetest.Write(b.t, b.dir+"/oci-layout", []byte("x")) }, hinterr.ErrDamaged, "oci-layout: "},
	"oci-layout: version": {func(b *badLayout) { imagetest.Write(b.t, b.dir+"/oci-layout", []byte(`{"imageLayoutVersion":"9"}`)) }, hinterr.ErrUnsupported, `"9"`},
	"index.json: empty":   {func(b *badLayout) { b.reindex() }, hinterr.ErrNotFound, "lists no image"},
	"index.json: no JSON": {func(b *badLayout) { imagetest.Write(b.t, b.dir+"/index.json", []byte("x")) }, hinterr.ErrDamaged, "index.json"},
	"index.json: missing": {func(b *badLayout) { os.Remove(b.dir + "/index.json") }, nil, "index.json"},
	"index.json: huge":    {func(b *badLayout) { os.Truncate(b.dir+"/index.json", blob.MaxManifest+1) }, hinterr.ErrDamaged, "want at most"},
}

func TestHostileLayouts(t *testing.T) {
	for name, c := range hostileLayouts {
		t.Run(name, func(t *testing.T) {
			imagetest.CleanTemp(t)
			b := newBadLayout(t)
			c.spoil(b)
			if name == "nothing" { // the positive control: remaking a manifest alone spoils nothing
				imagetest.Open(t, b.dir)
				return
			}
			imagetest.WantErr(t, imagetest.OpenErr(t, b.dir), c.kind, "oci layout "+b.dir, c.says)
		})
	}
}

// Layers are judged when they are read.
func TestHostileLayers(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(b *badLayout)
		says  string
	}{
		"changed":       {func(b *badLayout) { d := b.read(b.layer0); d[len(d)-9] ^= 1; b.overwrite(b.layer0, d) }, ""},
		"cut":           {func(b *badLayout) { d := b.read(b.layer0); b.overwrite(b.layer0, d[:9]) }, "got 9 bytes"},
		"longer":        {func(b *badLayout) { b.overwrite(b.layer0, append(b.read(b.layer0), 0)) }, "want"},
		"missing":       {func(b *badLayout) { os.Remove(media.LayoutBlobs{Dir: b.dir}.Path(b.layer0)) }, "no blob"},
		"claims less":   {func(b *badLayout) { b.remanifest(func(m *v1.Manifest) { m.Layers[0].Size-- }) }, "want"},
		"other diff ID": {func(b *badLayout) { b.reconfig(func(cf *v1.ConfigFile) { cf.RootFS.DiffIDs[0] = b.layer0 }) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBadLayout(t)
			c.spoil(b)
			l := imagetest.Must[[]v1.Layer](t)(imagetest.Open(t, b.dir).Image.Layers())[0]
			rc, err := l.Uncompressed()
			if err == nil {
				_, err = blob.CopyTo(context.Background(), discard{}, rc, nil)
				rc.Close()
			}
			imagetest.WantErr(t, err, nil, c.says)
			if name != "other diff ID" {
				rc, err = l.Compressed()
				if err == nil {
					_, err = blob.CopyTo(context.Background(), discard{}, rc, nil)
					rc.Close()
				}
				imagetest.WantErr(t, err, nil, c.says)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestHostileArchives(t *testing.T) {
	img := imagetest.TinyImage(t)
	good := imagetest.DockerSave(t, img, "redis:2.8")
	config := string(imagetest.Must[[]byte](t)(img.RawConfigFile()))
	manifest := func(m ...media.ArchiveImage) string { return string(imagetest.Must[[]byte](t)(json.Marshal(m))) }
	ls := []string{"l0", "l1"}
	gzipCut := imagetest.GzipOf(t, good)
	gzipCut = gzipCut[:len(gzipCut)-20]
	gzipDamaged := imagetest.GzipOf(t, good)
	gzipDamaged[len(gzipDamaged)-1] ^= 1
	for name, c := range map[string]struct {
		data []byte
		kind error
		says string
	}{
		"cut":             {good[:3000], hinterr.ErrDamaged, "tar entry"},
		"gzip cut":        {gzipCut, hinterr.ErrDamaged, "gzip"},
		"gzip damaged":    {gzipDamaged, hinterr.ErrDamaged, "gzip"},
		"v1":              {imagetest.TarOf(t, "repositories", "{}", "x/layer.tar", ""), hinterr.ErrNotFound, "repositories lists no image"},
		"no manifest":     {imagetest.TarOf(t, "x", ""), hinterr.ErrNotFound, "no entry manifest.json"},
		"empty list":      {imagetest.TarOf(t, "manifest.json", "[]"), hinterr.ErrNotFound, "lists no image"},
		"not a list":      {imagetest.TarOf(t, "manifest.json", "{}"), hinterr.ErrDamaged, "manifest.json"},
		"no config":       {imagetest.TarOf(t, "manifest.json", manifest(media.ArchiveImage{Config: "c", Layers: ls})), hinterr.ErrNotFound, "no entry c"},
		"config ../":      {imagetest.TarOf(t, "manifest.json", manifest(media.ArchiveImage{Config: "../../etc/passwd"})), hinterr.ErrNotFound, "no entry ../../etc/passwd"},
		"config lies":     {imagetest.TarOf(t, strings.Repeat("0", 64)+".json", config, "manifest.json", manifest(media.ArchiveImage{Config: strings.Repeat("0", 64) + ".json", Layers: ls})), hinterr.ErrDamaged, "got digest sha256:"},
		"one layer":       {imagetest.TarOf(t, "c", config, "l0", "", "manifest.json", manifest(media.ArchiveImage{Config: "c", Layers: ls[:1]})), hinterr.ErrDamaged, "got 2 diff IDs, want 1"},
		"layer missing":   {imagetest.TarOf(t, "c", config, "l0", "", "manifest.json", manifest(media.ArchiveImage{Config: "c", Layers: ls})), hinterr.ErrNotFound, "no entry l1"},
		"no layer of it":  {imagetest.TarOf(t, "c", config, "l0", "", "l1/x", "", "manifest.json", manifest(media.ArchiveImage{Config: "c", Layers: ls})), hinterr.ErrNotFound, "layer 1: no entry l1"},
		"config no JSON":  {imagetest.TarOf(t, "c", "{", "manifest.json", manifest(media.ArchiveImage{Config: "c"})), hinterr.ErrDamaged, "config sha256:"},
		"no diff ID":      {imagetest.TarOf(t, "c", `{"rootfs":{"diff_ids":["x:00"]}}`, "l0", "", "manifest.json", manifest(media.ArchiveImage{Config: "c", Layers: ls[:1]})), hinterr.ErrDamaged, ""},
		"twice":           {imagetest.TarOf(t, "c", config, "./c", config), hinterr.ErrDamaged, "two entries are named c"},
		"two images":      {imagetest.TarOf(t, "manifest.json", manifest(media.ArchiveImage{RepoTags: []string{"a:1"}}, media.ArchiveImage{RepoTags: []string{"b:2"}})), hinterr.ErrNotFound, "2 images"},
		"OCI archive":     {imagetest.TarOf(t, "index.json", "{}", "oci-layout", "{}"), hinterr.ErrNotFound, "no entry manifest.json"},
		"links in a ring": {ring(t), hinterr.ErrDamaged, "links"},
	} {
		t.Run(name, func(t *testing.T) {
			imagetest.CleanTemp(t)
			path := imagetest.Write(t, t.TempDir()+"/x.tar", c.data)
			err := imagetest.OpenErr(t, "docker-archive:"+path)
			imagetest.WantErr(t, err, c.kind, "docker archive", path, c.says)
			if hint := hinterr.HintOf(err); strings.Contains(hint, "oci-archive:"+path) != (name == "OCI archive") {
				t.Errorf("got the hint %q", hint)
			}
		})
	}
	err := imagetest.OpenErr(t, "oci-archive:"+imagetest.Write(t, t.TempDir()+"/x.tar", good))
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "oci archive")
	if hint := hinterr.HintOf(err); !strings.HasPrefix(hint, "it is a docker archive: docker-archive:") {
		t.Errorf("got the hint %q", hint)
	}
	// A layer that is not what its diff ID says is found when it is read.
	other := bytes.Replace(good, []byte("tiny0123"), []byte("tinyX123"), 1)
	if bytes.Equal(other, good) {
		t.Fatal("the fixture has no such text")
	}
	for want, data := range map[bool][]byte{true: good, false: other} {
		path := imagetest.Write(t, t.TempDir()+"/x.tar", data)
		_, err := sources.Put(context.Background(), media.Ref{Transport: media.OCILayout, Name: t.TempDir() + "/out"}, media.Result{Image: imagetest.Open(t, path).Image}, media.Options{})
		if (err == nil) != want {
			t.Errorf("sound %v: got %v", want, err)
		}
	}
}

// ring is an archive whose manifest.json is a link to itself by way of another.
func ring(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for from, to := range map[string]string{"manifest.json": "x", "x": "manifest.json"} {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: from, Linkname: to}); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestNestedTooDeep: the error of an index in an index in an index … without an image that is looked for says
// so, and does not end in a list of nothing.
func TestNestedTooDeep(t *testing.T) {
	b := newBadLayout(t)
	is := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: b.manifest, Size: int64(len(b.read(b.manifest)))}
	for range blob.MaxNesting + 2 {
		raw := imagetest.Must[[]byte](t)(json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{is}}))
		h, size, _ := v1.SHA256(bytes.NewReader(raw))
		b.overwrite(h, raw)
		is = v1.Descriptor{MediaType: types.OCIImageIndex, Digest: h, Size: size}
	}
	imagetest.Write(t, b.dir+"/index.json", imagetest.Must[[]byte](t)(json.Marshal(v1.IndexManifest{SchemaVersion: 2, Manifests: []v1.Descriptor{is}})))
	_, err := sources.Open(t.Context(), "oci:"+b.dir, media.Options{}.WithDefaults())
	if err == nil || !errors.Is(err, hinterr.ErrPlatform) || !strings.Contains(err.Error(), "no image in the index, nor in those in it down to") {
		t.Errorf("got %v", err)
	}
}

// TestOneImageOfTwoNames: an image that a layout lists twice is one image, whoever listed it: a layout that was
// also written onto itself.
func TestOneImageOfTwoNames(t *testing.T) {
	b := newBadLayout(t)
	is := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: b.manifest, Size: int64(len(b.read(b.manifest)))}
	named := is
	named.Annotations = map[string]string{"org.opencontainers.image.ref.name": "1.0"}
	for _, all := range [][]v1.Descriptor{{named, is}, {is, named}} {
		imagetest.Write(t, b.dir+"/index.json", imagetest.Must[[]byte](t)(json.Marshal(v1.IndexManifest{SchemaVersion: 2, Manifests: all})))
		src, err := sources.Open(t.Context(), "oci:"+b.dir, media.Options{}.WithDefaults())
		if err != nil {
			t.Errorf("got %v", err)
			continue
		}
		if got := imagetest.Must[v1.Hash](t)(src.Image.Digest()); got != b.manifest {
			t.Errorf("got %v, want %v", got, b.manifest)
		}
		src.Close()
	}
}
