package images

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestLayoutNew(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir()
	img := tinyImage(t)
	got := put(t, "oci:"+dir+"/out:v1", Result{Image: img})
	wantEmpty(t, dir, "out")
	wantEmpty(t, dir+"/out", "blobs", "index.json", "oci-layout")

	src := open(t, dir+"/out")
	if want := (Ref{Transport: OCILayout, Name: dir + "/out", Tag: "v1"}); src.Ref != want {
		t.Errorf("Ref: got %+v, want %+v", src.Ref, want)
	}
	if src.Digest != got.Digest || got.Reference != "oci:"+dir+"/out:v1" {
		t.Errorf("got %+v, source has digest %s", got, src.Digest)
	}
	sameImage(t, src.Image, img)
	// Docker's media types became OCI's, or umoci would not read the layout.
	if mt := must[types.MediaType](t)(src.Image.MediaType()); mt != types.OCIManifestSchema1 {
		t.Errorf("media type: got %s", mt)
	}
	idx := must[v1.ImageIndex](t)(layout.ImageIndexFromPath(dir + "/out"))
	if err := validate.Index(idx); err != nil {
		t.Error(err)
	}
}

func TestLayoutExtend(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir() + "/out"
	one, two, three := platformImage(t, "amd64", "1"), platformImage(t, "amd64", "2"), platformImage(t, "amd64", "3")
	put(t, "oci:"+dir+":one", Result{Image: one})
	// Text that others wrote stays as it is.
	index := must[[]byte](t)(os.ReadFile(dir + "/index.json"))
	write(t, dir+"/index.json", bytes.Replace(index, []byte(`"annotations":{`), []byte(`"x":  [ 1 ], "annotations": {`), 1))
	put(t, "oci:"+dir+":two", Result{Image: two})
	put(t, "oci:"+dir+":two", Result{Image: three})

	sameImage(t, open(t, "oci:"+dir+":one").Image, one)
	sameImage(t, open(t, "oci:"+dir+":two").Image, three)
	index = must[[]byte](t)(os.ReadFile(dir + "/index.json"))
	if !bytes.Contains(index, []byte(`"x":  [ 1 ], "annotations": {`)) {
		t.Errorf("index.json: the entry of another tag was rewritten: %s", index)
	}
	var m v1.IndexManifest
	if err := json.Unmarshal(index, &m); err != nil || len(m.Manifests) != 2 {
		t.Errorf("index.json: got %d entries, %v, want 2: %s", len(m.Manifests), err, index)
	}
	err := openErr(t, dir)
	wantErr(t, err, ErrNotFound, "2 images")
	if h := hintOf(err); !strings.Contains(h, "one two") {
		t.Errorf("hint: got %q", h)
	}
	wantErr(t, openErr(t, "oci:"+dir+":four"), ErrNotFound, `"four"`)
}

// An index goes into a layout byte for byte, with all that is in it.
func TestLayoutIndex(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir() + "/out"
	idx := tinyIndex(t)
	got := put(t, "oci:"+dir, Result{Index: idx})
	if want := must[v1.Hash](t)(idx.Digest()).String(); got.Digest != want {
		t.Errorf("digest: got %s, want %s", got.Digest, want)
	}
	src := open(t, dir)
	if src.Index == nil || src.Entry.Platform.Architecture != "amd64" || src.Entry.Annotations["kept"] != "yes" {
		t.Fatalf("got index %v, entry %+v", src.Index, src.Entry)
	}
	if err := validate.Index(src.Index); err != nil {
		t.Error(err)
	}
	arm := must[*Source](t)(Open(context.Background(), dir, MediaOptions{Platform: v1.Platform{OS: "linux", Architecture: "arm64"}}))
	if arm.Entry.Platform.Variant != "v8" {
		t.Errorf("entry for arm64: got %+v", arm.Entry)
	}
	_, err := Open(context.Background(), dir, MediaOptions{Platform: v1.Platform{OS: "linux", Architecture: "s390x"}})
	wantErr(t, err, ErrPlatform, "linux/s390x", "linux/amd64, linux/arm64/v8")
}

// What a layout lists and does not have stays listed, and is noted.
func TestLayoutSparse(t *testing.T) {
	dir := t.TempDir()
	put(t, "oci:"+dir+"/a", Result{Index: tinyIndex(t)})
	src := open(t, dir+"/a")
	m := must[*v1.IndexManifest](t)(src.Index.IndexManifest())
	arm := m.Manifests[0].Digest
	if err := os.Remove(layoutBlobs{dir + "/a"}.path(arm)); err != nil {
		t.Fatal(err)
	}
	n := &notes{}
	dest := Ref{Transport: OCIArchive, Name: dir + "/b.tar"}
	s := must[Stored](t)(Put(context.Background(), dest, Result{Image: src.Image, Index: src.Index}, MediaOptions{Progress: n}))
	if s.Digest != src.Digest || len(n.text) != 1 || !strings.Contains(n.text[0], arm.String()) {
		t.Errorf("got %+v, notes %q", s, n.text)
	}
	sameImage(t, open(t, dir+"/b.tar").Image, src.Image)
}

// A write that fails leaves a layout that was there as it was, and no new one.
func TestLayoutWriteFails(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir()
	good, bad := platformImage(t, "amd64", "good"), platformImage(t, "amd64", "bad")
	put(t, "oci:"+dir+"/old:good", Result{Image: good})
	put(t, "oci:"+dir+"/src", Result{Image: bad})
	src := open(t, dir+"/src")
	ls := must[[]v1.Layer](t)(src.Image.Layers())
	top := layoutBlobs{dir + "/src"}.path(must[v1.Hash](t)(ls[1].Digest()))
	data := must[[]byte](t)(os.ReadFile(top))
	data[len(data)/2] ^= 1
	write(t, top, data)

	before := tree(t, dir+"/old")
	for _, dest := range []string{"oci:" + dir + "/old:bad", "oci:" + dir + "/new", "oci-archive:" + dir + "/new.tar", "docker-archive:" + dir + "/new.tar"} {
		_, err := Put(context.Background(), must[Ref](t)(ParseRef(dest)), Result{Image: src.Image}, MediaOptions{})
		wantErr(t, err, ErrDamaged, filepath.Base(top))
	}
	if after := tree(t, dir+"/old"); after != before {
		t.Errorf("the old layout changed:\n%s\nwas\n%s", after, before)
	}
	wantEmpty(t, dir, "old", "src")
}

// A context that ends while blobs are written leaves nothing either.
func TestWriteCancelled(t *testing.T) {
	cleanTemp(t)
	dir := t.TempDir()
	img := tinyImage(t)
	for _, dest := range []string{"oci:" + dir + "/new", "oci-archive:" + dir + "/new.tar", "docker-archive:" + dir + "/new.tar"} {
		ctx, cancel := context.WithCancel(context.Background())
		o := MediaOptions{Progress: cancelAtStart{cancel: cancel}}
		if _, err := Put(ctx, must[Ref](t)(ParseRef(dest)), Result{Image: img}, o); err == nil || ctx.Err() == nil {
			t.Errorf("%s: got %v, context %v", dest, err, ctx.Err())
		}
	}
	wantEmpty(t, dir)
}

// cancelAtStart is a Progress that cancels a context when the first blob begins.
type cancelAtStart struct {
	silent
	cancel func()
}

func (c cancelAtStart) Start(string, string, int64) Task { c.cancel(); return silent{} }

func TestLayoutDestErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/x", []byte("x"))
	r := Result{Image: tinyImage(t)}
	for dest, says := range map[string]string{
		"oci:" + dir:               "not empty",
		"oci:" + dir + "/x":        "not a directory",
		"oci:" + dir + "/no/where": "no such file",
		"dir:" + dir:               "not written as a root filesystem",
		dir + "/out.tar":           "nothing says in which format",
		"oci-archive:" + dir:       "not a regular file",
		"docker-archive:/dev/null": "not a regular file",
	} {
		_, err := Put(context.Background(), must[Ref](t)(ParseRef(dest)), r, MediaOptions{})
		wantErr(t, err, nil, says)
	}
	wantEmpty(t, dir, "x")
}

// tree lists a folder's files with their sizes and contents' hashes.
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
