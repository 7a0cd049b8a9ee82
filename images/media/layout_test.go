package media_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/tests/imagetest"
)

func TestLayoutNew(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	img := imagetest.TinyImage(t)
	got := imagetest.Put(t, "oci:"+dir+"/out:v1", media.Result{Image: img})
	imagetest.WantEmpty(t, dir, "out")
	imagetest.WantEmpty(t, dir+"/out", "blobs", "index.json", "oci-layout")

	src := imagetest.Open(t, dir+"/out")
	if want := (media.Ref{Transport: media.OCILayout, Name: dir + "/out", Tag: "v1"}); src.Ref != want {
		t.Errorf("Ref: got %+v, want %+v", src.Ref, want)
	}
	if src.Digest != got.Digest || got.Reference != "oci:"+dir+"/out:v1" {
		t.Errorf("got %+v, source has digest %s", got, src.Digest)
	}
	imagetest.SameImage(t, src.Image, img)
	imagetest.WantContent(t, dir+"/out/index.json", fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":%d,"digest":"%s","annotations":{"org.opencontainers.image.ref.name":"v1"}}]}`,
		imagetest.Must[int64](t)(src.Image.Size()), got.Digest))
	imagetest.WantContent(t, dir+"/out/oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	// Its directories have the usual mode.
	if err := os.Mkdir(dir+"/usual", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "/blobs", "/blobs/sha256"} {
		if got, want := imagetest.Stat(t, dir+"/out"+name).Mode(), imagetest.Stat(t, dir+"/usual").Mode(); got != want {
			t.Errorf("out%s: got mode %v, want %v", name, got, want)
		}
	}
	// Docker's media types became OCI's, or umoci would not read the layout.
	if mt := imagetest.Must[types.MediaType](t)(src.Image.MediaType()); mt != types.OCIManifestSchema1 {
		t.Errorf("media type: got %s", mt)
	}
	idx := imagetest.Must[v1.ImageIndex](t)(layout.ImageIndexFromPath(dir + "/out"))
	if err := validate.Index(idx); err != nil {
		t.Error(err)
	}
}

// A manifest whose media types change keeps the members that nobody here knows.
func TestLayoutUnknownMembers(t *testing.T) {
	img := imagetest.TinyImage(t)
	raw := imagetest.Must[[]byte](t)(img.RawManifest())
	raw = bytes.Replace(raw, []byte(`{`), []byte(`{"artifactType":"a/b","vendor":"<&>","subject":{"mediaType":"m/s","size":1,"digest":"sha256:`+strings.Repeat("0", 64)+`","more":1},`), 1)
	raw = bytes.ReplaceAll(raw, []byte(`"size":`), []byte(`"vendor":"kept","size":`))
	edited := blob.NewEditedImage(imagetest.Must[[]byte](t)(img.RawConfigFile()), imagetest.Must[[]v1.Layer](t)(img.Layers()), func() ([]byte, error) { return raw, nil })
	dir := t.TempDir()
	imagetest.Put(t, "oci:"+dir+"/out:v1", media.Result{Image: edited})
	got := string(imagetest.Must[[]byte](t)(imagetest.Open(t, dir+"/out").Image.RawManifest()))
	for _, want := range []string{`"artifactType":"a/b"`, `"vendor":"<&>"`, `"more":1`, string(types.OCIManifestSchema1), string(types.OCIConfigJSON), string(types.OCILayer)} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if n := strings.Count(got, `"vendor":"kept"`); n != bytes.Count(raw, []byte(`"vendor":"kept"`)) || strings.Contains(got, "docker") {
		t.Errorf("got %d such members: %s", n, got)
	}
}

func TestLayoutExtend(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir() + "/out"
	one, two, three := imagetest.PlatformImage(t, "amd64", "1"), imagetest.PlatformImage(t, "amd64", "2"), imagetest.PlatformImage(t, "amd64", "3")
	imagetest.Put(t, "oci:"+dir+":one", media.Result{Image: one})
	// Text that others wrote stays as it is.
	index := imagetest.Must[[]byte](t)(os.ReadFile(dir + "/index.json"))
	imagetest.Write(t, dir+"/index.json", bytes.Replace(index, []byte(`"annotations":{`), []byte(`"x":  [ 1 ], "annotations": {`), 1))
	imagetest.Put(t, "oci:"+dir+":two", media.Result{Image: two})
	imagetest.Put(t, "oci:"+dir+":two", media.Result{Image: three})

	imagetest.SameImage(t, imagetest.Open(t, "oci:"+dir+":one").Image, one)
	imagetest.SameImage(t, imagetest.Open(t, "oci:"+dir+":two").Image, three)
	index = imagetest.Must[[]byte](t)(os.ReadFile(dir + "/index.json"))
	if !bytes.Contains(index, []byte(`"x":  [ 1 ], "annotations": {`)) {
		t.Errorf("index.json: the entry of another tag was rewritten: %s", index)
	}
	var m v1.IndexManifest
	if err := json.Unmarshal(index, &m); err != nil || len(m.Manifests) != 2 {
		t.Errorf("index.json: got %d entries, %v, want 2: %s", len(m.Manifests), err, index)
	}
	err := imagetest.OpenErr(t, dir)
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "2 images")
	if h := hinterr.HintOf(err); !strings.Contains(h, "one two") {
		t.Errorf("hint: got %q", h)
	}
	imagetest.WantErr(t, imagetest.OpenErr(t, "oci:"+dir+":four"), hinterr.ErrNotFound, `"four"`)
	// A tagged image there is there.
	imagetest.Put(t, "oci:"+dir, media.Result{Image: one})
	if again := imagetest.Must[[]byte](t)(os.ReadFile(dir + "/index.json")); !bytes.Equal(again, index) {
		t.Errorf("index.json: an entry without a tag for an image that has one: %s", again)
	}
	imagetest.Put(t, "oci:"+dir, media.Result{Image: two})
	imagetest.Put(t, "oci:"+dir, media.Result{Image: two})
	if err := json.Unmarshal(imagetest.Must[[]byte](t)(os.ReadFile(dir+"/index.json")), &m); err != nil || len(m.Manifests) != 3 {
		t.Errorf("index.json: got %d entries, %v, want 3", len(m.Manifests), err)
	}
	if h, want := hinterr.HintOf(imagetest.OpenErr(t, dir)), "one two "+m.Manifests[len(m.Manifests)-1].Digest.String(); !strings.HasSuffix(h, want) {
		t.Errorf("hint: got %q, want %s at its end", h, want)
	}
}

// An index goes into a layout byte for byte, with all that is in it.
func TestLayoutIndex(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir() + "/out"
	idx := imagetest.TinyIndex(t)
	got := imagetest.Put(t, "oci:"+dir, media.Result{Index: idx})
	if want := imagetest.Must[v1.Hash](t)(idx.Digest()).String(); got.Digest != want {
		t.Errorf("digest: got %s, want %s", got.Digest, want)
	}
	src := imagetest.Open(t, dir)
	if src.Index == nil || src.Entry.Platform.Architecture != "amd64" || src.Entry.Annotations["kept"] != "yes" {
		t.Fatalf("got index %v, entry %+v", src.Index, src.Entry)
	}
	if err := validate.Index(src.Index); err != nil {
		t.Error(err)
	}
	arm := imagetest.Must[*media.Source](t)(sources.Open(context.Background(), dir, media.Options{Platform: v1.Platform{OS: "linux", Architecture: "arm64"}}))
	if arm.Entry.Platform.Variant != "v8" {
		t.Errorf("entry for arm64: got %+v", arm.Entry)
	}
	_, err := sources.Open(context.Background(), dir, media.Options{Platform: v1.Platform{OS: "linux", Architecture: "s390x"}})
	imagetest.WantErr(t, err, hinterr.ErrPlatform, "linux/s390x", "linux/amd64, linux/arm64/v8")
}

// An entry that does not say its platform has that of its config.
func TestLayoutPlatforms(t *testing.T) {
	dir := t.TempDir() + "/out"
	img := imagetest.TinyImage(t)
	cf := imagetest.Must[*v1.ConfigFile](t)(img.ConfigFile()).DeepCopy()
	cf.Variant = "v3"
	level := imagetest.Must[v1.Image](t)(mutate.ConfigFile(img, cf))
	artifact := mutate.ConfigMediaType(imagetest.PlatformImage(t, "amd64", "artifact"), "application/x")
	imagetest.Put(t, "oci:"+dir, media.Result{Index: mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: level}, mutate.IndexAddendum{Add: imagetest.PlatformImage(t, "arm64", "x")}, mutate.IndexAddendum{Add: artifact}, mutate.IndexAddendum{Add: img}, mutate.IndexAddendum{Add: level}, mutate.IndexAddendum{Add: img})})
	src := imagetest.Open(t, dir)
	if len(src.Levels) != 1 {
		t.Fatalf("got %d levels, want 1", len(src.Levels))
	}
	for _, c := range []struct {
		got  *media.Source
		of   v1.Image
		want string
	}{{src, img, "linux/amd64"}, {src.Levels[0], level, "linux/amd64/v3"}} {
		digest := imagetest.Must[v1.Hash](t)(c.of.Digest())
		if e := c.got.Entry; e.Platform == nil || e.Platform.String() != c.want || e.Digest != digest || imagetest.Must[v1.Hash](t)(c.got.Image.Digest()) != digest {
			t.Errorf("%s: got %+v", c.want, e)
		}
	}
	// A layout need not have every image of an index, but one.
	path := func(img v1.Image) string {
		return media.LayoutBlobs{Dir: dir}.Path(imagetest.Must[v1.Hash](t)(img.Digest()))
	}
	os.Remove(path(level))
	if left := imagetest.Open(t, dir); len(left.Levels) != 0 {
		t.Errorf("got %d levels", len(left.Levels))
	}
	arm := media.Options{Platform: v1.Platform{OS: "linux", Architecture: "arm64"}}
	if err := os.Remove(path(img)); err != nil {
		t.Fatal(err)
	}
	imagetest.WantErr(t, imagetest.OpenErr(t, dir), hinterr.ErrPlatform, "linux/arm64/v8")
	os.Remove(path(imagetest.PlatformImage(t, "arm64", "x")))
	os.Remove(path(artifact))
	_, err := sources.Open(t.Context(), dir, arm)
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "no blob sha256:")
	if l := src.Levels[0]; l.Digest != src.Levels[0].Entry.Digest.String() || src.Digest == l.Digest || l.Index == nil || l.Close() != nil {
		t.Errorf("got %+v", l)
	}
}

// A tag of several images is that of the platform's.
func TestLayoutTags(t *testing.T) {
	b := newBadLayout(t)
	amd := b.entry()
	b.reconfig(func(cf *v1.ConfigFile) { cf.Architecture = "arm64" })
	arm := b.entry()
	tag := map[string]string{"org.opencontainers.image.ref.name": "x"}
	amd.Annotations, arm.Annotations = tag, tag
	b.reindex(arm, amd)
	for _, source := range []string{"oci:" + b.dir + ":x", "oci:" + b.dir, "oci:" + b.dir + ":" + amd.Digest.String()} {
		if src := imagetest.Open(t, source); src.Digest != amd.Digest.String() || source[len(source)-1] == 'x' && src.Ref.Tag != "x" {
			t.Errorf("%s: got %s, %+v", source, src.Digest, src.Ref)
		}
	}
	arm.Platform, amd.Platform = &v1.Platform{OS: "linux", Architecture: "s390x"}, &v1.Platform{OS: "linux", Architecture: "ppc64le"}
	b.reindex(arm, amd)
	imagetest.WantErr(t, imagetest.OpenErr(t, "oci:"+b.dir+":x"), media.ErrSeveral, "2 images")
	// Many are not all listed.
	for _, n := range []int{20, 21} {
		var all []v1.Descriptor
		for i := range n {
			e := amd
			e.Digest.Hex, e.Annotations = fmt.Sprintf("%064x", i), map[string]string{"io.containerd.image.name": fmt.Sprint("t", i)}
			all = append(all, e)
		}
		b.reindex(all...)
		hint := hinterr.HintOf(imagetest.OpenErr(t, b.dir))
		if want := map[int]string{20: " t19", 21: " t19 …"}[n]; !strings.HasSuffix(hint, want) {
			t.Errorf("%d images: got the hint %q", n, hint)
		}
		// As an index.
		raw := imagetest.Must[[]byte](t)(json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: all}))
		h, size, _ := v1.SHA256(bytes.NewReader(raw))
		b.overwrite(h, raw)
		b.reindex(v1.Descriptor{MediaType: types.OCIImageIndex, Digest: h, Size: size})
		err := imagetest.OpenErr(t, b.dir)
		imagetest.WantErr(t, err, hinterr.ErrPlatform, "no image for linux/amd64 in the index, which has: linux/ppc64le")
		if got := strings.Count(err.Error(), "linux/ppc64le"); got != 20 || strings.Contains(err.Error(), "…") != (n > 20) {
			t.Errorf("%d platforms: got %v", n, err)
		}
	}
	// A whole reference, as containerd writes it, is a tag as well; the oldest configs have no platform.
	b = newBadLayout(t)
	b.reconfig(func(cf *v1.ConfigFile) { cf.OS, cf.Architecture = "", "" })
	one, two := b.entry(), b.entry()
	two.Digest = b.layer0
	one.Annotations, two.Annotations = map[string]string{"io.containerd.image.name": "h/a:1"}, map[string]string{"io.containerd.image.name": "h/a:2"}
	b.reindex(two, one)
	if src := imagetest.Open(t, "oci:"+b.dir+":h/a:1"); src.Digest != one.Digest.String() {
		t.Errorf("got %s", src.Digest)
	}
	// An OCI archive is not a layout.
	err := imagetest.OpenErr(t, "oci:"+imagetest.Write(t, t.TempDir()+"/x.tar", nil))
	imagetest.WantErr(t, err, hinterr.ErrDamaged, "x.tar: not a directory")
	if hint := hinterr.HintOf(err); !strings.HasPrefix(hint, "an OCI layout in a tar file is oci-archive:/") {
		t.Errorf("got the hint %q", hint)
	}
}

// An image whose manifest has other layers than it gives is not written.
func TestWriteOtherLayers(t *testing.T) {
	dir := t.TempDir()
	_, err := sources.Put(t.Context(), media.Ref{Transport: media.OCILayout, Name: dir + "/x"}, media.Result{Image: fewerLayers{imagetest.TinyImage(t)}}, media.Options{})
	imagetest.WantErr(t, err, hinterr.ErrDamaged, "manifest: got 1 layers, want 2")
	imagetest.WantEmpty(t, dir)
}

// fewerLayers is an image that gives one layer less.
type fewerLayers struct{ v1.Image }

func (i fewerLayers) Layers() ([]v1.Layer, error) {
	all, err := i.Image.Layers()
	return all[1:], err
}

// An entry of a layout that is missing stays listed, and is noted.
func TestLayoutSparse(t *testing.T) {
	dir := t.TempDir()
	imagetest.Put(t, "oci:"+dir+"/a", media.Result{Index: imagetest.TinyIndex(t)})
	src := imagetest.Open(t, dir+"/a")
	m := imagetest.Must[*v1.IndexManifest](t)(src.Index.IndexManifest())
	arm := m.Manifests[0].Digest
	if err := os.Remove(media.LayoutBlobs{Dir: dir + "/a"}.Path(arm)); err != nil {
		t.Fatal(err)
	}
	n := &imagetest.Notes{}
	dest := media.Ref{Transport: media.OCIArchive, Name: dir + "/b.tar"}
	s := imagetest.Must[media.Stored](t)(sources.Put(context.Background(), dest, media.Result{Image: src.Image, Index: src.Index}, media.Options{Options: registry.Options{Progress: n}}))
	if s.Digest != src.Digest || len(n.Text) != 1 || !strings.Contains(n.Text[0], arm.String()) {
		t.Errorf("got %+v, notes %q", s, n.Text)
	}
	imagetest.SameImage(t, imagetest.Open(t, dir+"/b.tar").Image, src.Image)
}

// A write that fails leaves a layout that was there as it was, and no new one.
func TestLayoutWriteFails(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	good, bad := imagetest.PlatformImage(t, "amd64", "good"), imagetest.PlatformImage(t, "amd64", "bad")
	imagetest.Put(t, "oci:"+dir+"/old:good", media.Result{Image: good})
	imagetest.Put(t, "oci:"+dir+"/src", media.Result{Image: bad})
	src := imagetest.Open(t, dir+"/src")
	ls := imagetest.Must[[]v1.Layer](t)(src.Image.Layers())
	top := media.LayoutBlobs{Dir: dir + "/src"}.Path(imagetest.Must[v1.Hash](t)(ls[1].Digest()))
	data := imagetest.Must[[]byte](t)(os.ReadFile(top))
	data[len(data)/2] ^= 1
	imagetest.Write(t, top, data)

	before := tree(t, dir+"/old")
	for _, dest := range []string{"oci:" + dir + "/old:bad", "oci:" + dir + "/new", "oci-archive:" + dir + "/new.tar", "docker-archive:" + dir + "/new.tar"} {
		_, err := sources.Put(context.Background(), imagetest.Must[media.Ref](t)(media.ParseRef(dest)), media.Result{Image: src.Image}, media.Options{})
		imagetest.WantErr(t, err, hinterr.ErrDamaged, filepath.Base(top))
	}
	if after := tree(t, dir+"/old"); after != before {
		t.Errorf("the old layout changed:\n%s\nwas\n%s", after, before)
	}
	imagetest.WantEmpty(t, dir, "old", "src")
}

// A context that ends while blobs are written leaves nothing either.
func TestWriteCancelled(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	img := imagetest.TinyImage(t)
	for _, dest := range []string{"oci:" + dir + "/new", "oci-archive:" + dir + "/new.tar", "docker-archive:" + dir + "/new.tar"} {
		ctx, cancel := context.WithCancel(context.Background())
		o := media.Options{Options: registry.Options{Progress: cancelAtStart{cancel: cancel}}}
		if _, err := sources.Put(ctx, imagetest.Must[media.Ref](t)(media.ParseRef(dest)), media.Result{Image: img}, o); err == nil || ctx.Err() == nil {
			t.Errorf("%s: got %v, context %v", dest, err, ctx.Err())
		}
	}
	imagetest.WantEmpty(t, dir)
}

// A context that ends once all blobs are written leaves nothing, either: the index is not written.
func TestWriteCancelledAtEnd(t *testing.T) {
	imagetest.CleanTemp(t)
	dir := t.TempDir()
	imagetest.Put(t, "oci:"+dir+"/old:x", media.Result{Image: imagetest.PlatformImage(t, "amd64", "old")})
	var img v1.Image
	for seed := 0; ; seed++ { // one whose last blob is a layer
		img = imagetest.PlatformImage(t, "amd64", fmt.Sprint("seed", seed))
		c := blob.Collection{}
		if _, err := c.AddImage(img); err != nil {
			t.Fatal(err)
		}
		if all := c.Sorted(); all[len(all)-1].Layer != "" {
			break
		}
	}
	before := tree(t, dir)
	for _, name := range []string{"old", "new"} {
		ctx, cancel := context.WithCancel(context.Background())
		// Its media types are OCI's already: of the manifest whose digest was compared.
		o := media.Options{Options: registry.Options{Progress: &cancelAtEnd{left: 2, cancel: cancel}}}
		_, err := sources.Put(ctx, media.Ref{Transport: media.OCILayout, Name: dir + "/" + name}, media.Result{Image: img}, o)
		imagetest.WantErr(t, err, context.Canceled)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("got\n%s\nwas\n%s", after, before)
	}
	imagetest.WantEmpty(t, dir, "old")
}

// cancelAtEnd is a Progress that cancels a context when so many tasks have ended.
type cancelAtEnd struct {
	progress.Silent
	left   int
	cancel func()
}

func (c *cancelAtEnd) Start(string, string, int64) progress.Task { return c }

func (c *cancelAtEnd) Done() {
	if c.left--; c.left == 0 {
		c.cancel()
	}
}

// cancelAtStart is a Progress that cancels a context when the first blob begins.
type cancelAtStart struct {
	progress.Silent
	cancel func()
}

func (c cancelAtStart) Start(string, string, int64) progress.Task {
	c.cancel()
	return progress.Silent{}
}

func TestLayoutDestErrors(t *testing.T) {
	dir := t.TempDir()
	imagetest.Write(t, dir+"/x", []byte("x"))
	r := media.Result{Image: imagetest.TinyImage(t)}
	for dest, says := range map[string]string{
		"oci:" + dir:               "not empty",
		"oci:" + dir + "/x":        "not a directory",
		"oci:" + dir + "/no/where": "no directory ",
		"dir:" + dir:               "exists and is not empty",
		"dir:" + dir + "/x":        "exists and is not a directory",
		"dir:" + dir + "/no/where": "no directory ",
		dir + "/out.tar":           "cannot tell the output format",
		"oci-archive:" + dir:       "not a regular file",
		"docker-archive:/dev/null": "not a regular file",
	} {
		_, err := sources.Put(context.Background(), imagetest.Must[media.Ref](t)(media.ParseRef(dest)), r, media.Options{})
		imagetest.WantErr(t, err, nil, says)
	}
	imagetest.WantEmpty(t, dir, "x")
}

// tree lists a directory's files with their sizes and contents' hashes.
func tree(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err != nil || fi.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		h, _, _ := v1.SHA256(bytes.NewReader(data))
		b.WriteString(p + " " + h.String() + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
