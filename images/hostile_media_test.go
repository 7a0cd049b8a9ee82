package images

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// badLayout is a sound layout, in a folder of its own, that a test then spoils.
type badLayout struct {
	t                        testing.TB
	dir                      string
	manifest, config, layer0 v1.Hash
}

func newBadLayout(t testing.TB) *badLayout {
	t.Helper()
	b := &badLayout{t: t, dir: t.TempDir() + "/out"}
	put(t, "oci:"+b.dir, Result{Image: tinyImage(t)})
	src := open(t, b.dir)
	b.manifest = must[v1.Hash](t)(src.Image.Digest())
	b.config = must[v1.Hash](t)(src.Image.ConfigName())
	b.layer0 = must[v1.Hash](t)(must[[]v1.Layer](t)(src.Image.Layers())[0].Digest())
	return b
}

func (b *badLayout) read(h v1.Hash) []byte {
	return must[[]byte](b.t)(os.ReadFile(layoutBlobs{b.dir}.path(h)))
}

func (b *badLayout) overwrite(h v1.Hash, data []byte) { write(b.t, layoutBlobs{b.dir}.path(h), data) }

// remanifest changes the manifest and names the result as index.json's only entry, so that
// nothing is wrong but what edit did.
func (b *badLayout) remanifest(edit func(m *v1.Manifest)) {
	b.t.Helper()
	var m v1.Manifest
	if err := json.Unmarshal(b.read(b.manifest), &m); err != nil {
		b.t.Fatal(err)
	}
	edit(&m)
	raw := must[[]byte](b.t)(json.Marshal(m))
	h, size, _ := v1.SHA256(bytes.NewReader(raw))
	b.overwrite(h, raw)
	b.manifest = h
	b.reindex(v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: size, Digest: h})
}

// reconfig changes the config in the same way.
func (b *badLayout) reconfig(edit func(cf *v1.ConfigFile)) {
	b.t.Helper()
	var cf v1.ConfigFile
	if err := json.Unmarshal(b.read(b.config), &cf); err != nil {
		b.t.Fatal(err)
	}
	edit(&cf)
	raw := must[[]byte](b.t)(json.Marshal(cf))
	h, size, _ := v1.SHA256(bytes.NewReader(raw))
	b.overwrite(h, raw)
	b.remanifest(func(m *v1.Manifest) { m.Config.Digest, m.Config.Size = h, size })
}

func (b *badLayout) reindex(ds ...v1.Descriptor) {
	raw := must[[]byte](b.t)(json.Marshal(v1.IndexManifest{SchemaVersion: 2, Manifests: ds}))
	write(b.t, b.dir+"/index.json", raw)
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
	"manifest: changed":        {func(b *badLayout) { m := b.read(b.manifest); m[5] ^= 1; b.overwrite(b.manifest, m) }, ErrDamaged, "manifest: blob "},
	"manifest: wrong size":     {func(b *badLayout) { e := b.entry(); e.Size++; b.reindex(e) }, ErrDamaged, "want"},
	"manifest: huge":           {func(b *badLayout) { e := b.entry(); e.Size = maxManifest + 1; b.reindex(e) }, ErrDamaged, "want at most"},
	"manifest: negative size":  {func(b *badLayout) { e := b.entry(); e.Size = -1; b.reindex(e) }, ErrDamaged, "want at most"},
	"manifest: other type":     {func(b *badLayout) { e := b.entry(); e.MediaType = types.DockerManifestSchema2; b.reindex(e) }, ErrDamaged, "media type"},
	"manifest: index as image": {func(b *badLayout) { e := b.entry(); e.MediaType = types.OCIImageIndex; b.reindex(e) }, ErrDamaged, "media type"},
	"manifest: no image":       {func(b *badLayout) { e := b.entry(); e.MediaType = "text/plain"; b.reindex(e) }, ErrUnsupported, "text/plain"},
	"manifest: schema 1":       {func(b *badLayout) { e := b.entry(); e.MediaType = types.DockerManifestSchema1Signed; b.reindex(e) }, ErrDamaged, "schema 1 manifest: got version 2"},
	"manifest: missing":        {func(b *badLayout) { os.Remove(layoutBlobs{b.dir}.path(b.manifest)) }, ErrNotFound, "no blob sha256:"},
	"manifest: not JSON": {func(b *badLayout) {
		h, n, _ := v1.SHA256(strings.NewReader("{"))
		b.overwrite(h, []byte("{"))
		b.reindex(v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: h, Size: n})
	}, ErrDamaged, "unexpected end"},
	"manifest: folder": {func(b *badLayout) {
		p := layoutBlobs{b.dir}.path(b.manifest)
		os.Remove(p)
		os.Mkdir(p, 0o755)
	}, ErrDamaged, "not a regular file"},
	"config: changed":     {func(b *badLayout) { c := b.read(b.config); c[5] ^= 1; b.overwrite(b.config, c) }, ErrDamaged, "config"},
	"config: huge":        {func(b *badLayout) { b.remanifest(func(m *v1.Manifest) { m.Config.Size = maxConfig + 1 }) }, ErrDamaged, "want at most"},
	"config: no diff IDs": {func(b *badLayout) { b.reconfig(func(cf *v1.ConfigFile) { cf.RootFS.DiffIDs = nil }) }, ErrDamaged, "got 0 diff IDs, want 2"},
	"config: more diff IDs": {func(b *badLayout) {
		b.reconfig(func(cf *v1.ConfigFile) { cf.RootFS.DiffIDs = append(cf.RootFS.DiffIDs, b.config) })
	}, ErrDamaged, "got 3 diff IDs, want 2"},
	"config: other platform": {func(b *badLayout) { b.reconfig(func(cf *v1.ConfigFile) { cf.Architecture = "arm64" }) }, ErrPlatform, "is for linux/arm64, want linux/amd64"},
	"layer: negative size":   {func(b *badLayout) { b.remanifest(func(m *v1.Manifest) { m.Layers[1].Size = -5 }) }, ErrDamaged, "layer 1: -5 bytes"},
	"layer: digest ../..": {func(b *badLayout) {
		raw := bytes.ReplaceAll(b.read(b.manifest), []byte(b.layer0.Hex), []byte("../../../../../../etc/passwd"))
		h, n, _ := v1.SHA256(bytes.NewReader(raw))
		b.overwrite(h, raw)
		b.reindex(v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: h, Size: n})
	}, ErrDamaged, "hash"},
	"oci-layout: version": {func(b *badLayout) { write(b.t, b.dir+"/oci-layout", []byte(`{"imageLayoutVersion":"9"}`)) }, ErrUnsupported, `"9"`},
	"index.json: empty":   {func(b *badLayout) { b.reindex() }, ErrNotFound, "lists no image"},
	"index.json: no JSON": {func(b *badLayout) { write(b.t, b.dir+"/index.json", []byte("x")) }, ErrDamaged, "index.json"},
	"index.json: missing": {func(b *badLayout) { os.Remove(b.dir + "/index.json") }, nil, "index.json"},
	"index.json: huge":    {func(b *badLayout) { os.Truncate(b.dir+"/index.json", maxManifest+1) }, ErrDamaged, "want at most"},
}

func TestHostileLayouts(t *testing.T) {
	for name, c := range hostileLayouts {
		t.Run(name, func(t *testing.T) {
			cleanTemp(t)
			b := newBadLayout(t)
			c.spoil(b)
			if name == "nothing" { // the positive control: remaking a manifest alone spoils nothing
				open(t, b.dir)
				return
			}
			wantErr(t, openErr(t, b.dir), c.kind, "oci layout "+b.dir, c.says)
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
		"missing":       {func(b *badLayout) { os.Remove(layoutBlobs{b.dir}.path(b.layer0)) }, "no blob"},
		"claims less":   {func(b *badLayout) { b.remanifest(func(m *v1.Manifest) { m.Layers[0].Size-- }) }, "want"},
		"other diff ID": {func(b *badLayout) { b.reconfig(func(cf *v1.ConfigFile) { cf.RootFS.DiffIDs[0] = b.layer0 }) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBadLayout(t)
			c.spoil(b)
			l := must[[]v1.Layer](t)(open(t, b.dir).Image.Layers())[0]
			rc, err := l.Uncompressed()
			if err == nil {
				_, err = copyTo(context.Background(), discard{}, rc, nil)
				rc.Close()
			}
			wantErr(t, err, nil, c.says)
			if name != "other diff ID" {
				rc, err = l.Compressed()
				if err == nil {
					_, err = copyTo(context.Background(), discard{}, rc, nil)
					rc.Close()
				}
				wantErr(t, err, nil, c.says)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestHostileArchives(t *testing.T) {
	img := tinyImage(t)
	good := dockerSave(t, img, "redis:2.8")
	config := string(must[[]byte](t)(img.RawConfigFile()))
	manifest := func(m ...archiveImage) string { return string(must[[]byte](t)(json.Marshal(m))) }
	ls := []string{"l0", "l1"}
	gzipCut := gzipOf(t, good)
	gzipCut = gzipCut[:len(gzipCut)-20]
	for name, c := range map[string]struct {
		data []byte
		kind error
		says string
	}{
		"cut":             {good[:3000], ErrDamaged, "tar entry"},
		"gzip cut":        {gzipCut, ErrDamaged, "gzip"},
		"v1":              {tarOf(t, "repositories", "{}", "x/layer.tar", ""), ErrNotFound, "repositories lists no image"},
		"no manifest":     {tarOf(t, "x", ""), ErrNotFound, "no entry manifest.json"},
		"empty list":      {tarOf(t, "manifest.json", "[]"), ErrNotFound, "lists no image"},
		"not a list":      {tarOf(t, "manifest.json", "{}"), ErrDamaged, "manifest.json"},
		"no config":       {tarOf(t, "manifest.json", manifest(archiveImage{Config: "c", Layers: ls})), ErrNotFound, "no entry c"},
		"config ../":      {tarOf(t, "manifest.json", manifest(archiveImage{Config: "../../etc/passwd"})), ErrNotFound, "no entry ../../etc/passwd"},
		"config lies":     {tarOf(t, strings.Repeat("0", 64)+".json", config, "manifest.json", manifest(archiveImage{Config: strings.Repeat("0", 64) + ".json", Layers: ls})), ErrDamaged, "got digest sha256:"},
		"one layer":       {tarOf(t, "c", config, "l0", "", "manifest.json", manifest(archiveImage{Config: "c", Layers: ls[:1]})), ErrDamaged, "got 2 diff IDs, want 1"},
		"layer missing":   {tarOf(t, "c", config, "l0", "", "manifest.json", manifest(archiveImage{Config: "c", Layers: ls})), ErrNotFound, "no entry l1"},
		"twice":           {tarOf(t, "c", config, "./c", config), ErrDamaged, "two entries are named c"},
		"two images":      {tarOf(t, "manifest.json", manifest(archiveImage{RepoTags: []string{"a:1"}}, archiveImage{RepoTags: []string{"b:2"}})), ErrNotFound, "2 images"},
		"OCI archive":     {tarOf(t, "index.json", "{}", "oci-layout", "{}"), ErrNotFound, "no entry manifest.json"},
		"links in a ring": {ring(t), ErrDamaged, "links"},
	} {
		t.Run(name, func(t *testing.T) {
			cleanTemp(t)
			path := write(t, t.TempDir()+"/x.tar", c.data)
			wantErr(t, openErr(t, "docker-archive:"+path), c.kind, "docker archive", path, c.says)
		})
	}
	// A layer that is not what its diff ID says is found when it is read.
	other := bytes.Replace(good, []byte("tiny0123"), []byte("tinyX123"), 1)
	if bytes.Equal(other, good) {
		t.Fatal("the fixture has no such text")
	}
	for want, data := range map[bool][]byte{true: good, false: other} {
		path := write(t, t.TempDir()+"/x.tar", data)
		_, err := Put(context.Background(), Ref{Transport: OCILayout, Name: t.TempDir() + "/out"}, Result{Image: open(t, path).Image}, MediaOptions{})
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
