package images_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/tests/imagetest"
)

// The mutation test of verify: a derived image is taken apart, one thing in it is changed,
// and verify must notice. The places to change are read from the image itself: each value,
// key and element of its config, manifest and index, each field of tar.Header of each member
// of the added layer.

// parts are a derived image with its index, taken apart.
type parts struct {
	index, manifest, config, layer []byte
	blobs                          map[string][]byte // all others, by digest
}

func digestOf(b []byte) string {
	h, _, _ := v1.SHA256(bytes.NewReader(b))
	return h.String()
}

// takeApart reads a layout with one image of the platform in an index.
func takeApart(t testing.TB, dir string) *parts {
	p := &parts{blobs: map[string][]byte{}}
	files := imagetest.Must[[]string](t)(filepath.Glob(dir + "/blobs/sha256/*"))
	for _, f := range files {
		p.blobs["sha256:"+filepath.Base(f)] = imagetest.Must[[]byte](t)(os.ReadFile(f))
	}
	src := imagetest.Open(t, "oci:"+dir)
	p.index = imagetest.Must[[]byte](t)(src.Index.RawManifest())
	p.manifest = imagetest.Must[[]byte](t)(src.Image.RawManifest())
	p.config = imagetest.Must[[]byte](t)(src.Image.RawConfigFile())
	layers := imagetest.Must[[]v1.Layer](t)(src.Image.Layers())
	r := imagetest.Must[io.ReadCloser](t)(layers[len(layers)-1].Uncompressed())
	defer r.Close()
	p.layer = imagetest.Must[[]byte](t)(io.ReadAll(r))
	return p
}

// store writes the parts as a layout, with the digests that follow from what was changed.
func (p parts) store(t testing.TB, was *parts) string {
	dir := t.TempDir()
	put := func(b []byte) (digest, size string) {
		imagetest.Write(t, dir+"/blobs/sha256/"+strings.TrimPrefix(digestOf(b), "sha256:"), b)
		return digestOf(b), fmt.Sprint(len(b))
	}
	replace := func(in *[]byte, old []byte, digest, size string) {
		descriptor := regexp.MustCompile(`\{[^{}]*` + digestOf(old) + `[^{}]*`)
		*in = descriptor.ReplaceAllFunc(*in, func(d []byte) []byte {
			d = bytes.Replace(d, []byte(digestOf(old)), []byte(digest), 1)
			return bytes.Replace(d, []byte(`"size":`+fmt.Sprint(len(old))), []byte(`"size":`+size), 1)
		})
	}
	if err := os.MkdirAll(dir+"/blobs/sha256", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, b := range p.blobs {
		put(b)
	}
	if !bytes.Equal(p.layer, was.layer) {
		var m struct{ Layers []v1.Descriptor }
		if err := json.Unmarshal(p.manifest, &m); err != nil {
			t.Fatal(err)
		}
		digest, size := put(imagetest.GzipOf(t, p.layer))
		replace(&p.manifest, p.blobs[m.Layers[len(m.Layers)-1].Digest.String()], digest, size)
		p.config = bytes.ReplaceAll(p.config, []byte(digestOf(was.layer)), []byte(digestOf(p.layer)))
	}
	digest, size := put(p.config)
	replace(&p.manifest, was.config, digest, size)
	digest, size = put(p.manifest)
	replace(&p.index, was.manifest, digest, size)
	digest, size = put(p.index)
	imagetest.Write(t, dir+"/oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	imagetest.Write(t, dir+"/index.json", []byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"`+digest+`","size":`+size+`}]}`))
	return "oci:" + dir
}

// headers calls f with each tar stream that differs in one thing from raw.
func headers(t testing.TB, raw []byte, f func(what string, changed []byte)) {
	members := imagetest.ReadTar(t, bytes.NewReader(raw))
	write := func(what string, members []imagetest.TestMember) {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		for _, m := range members {
			h := m.Header
			h.Format = tar.FormatPAX
			for k := range h.PAXRecords {
				if !strings.Contains(k, ".") {
					delete(h.PAXRecords, k) // what the fields say
				}
			}
			if tw.WriteHeader(&h) != nil {
				return
			}
			if _, err := tw.Write(m.Body[:min(int64(len(m.Body)), h.Size)]); err != nil {
				return
			}
		}
		if tw.Close() == nil && !bytes.Equal(b.Bytes(), raw) {
			f(what, b.Bytes())
		}
	}
	write("control", members)
	copied := func() []imagetest.TestMember { return append([]imagetest.TestMember{}, members...) }
	for i, m := range members {
		h := reflect.TypeFor[tar.Header]()
		for n := range h.NumField() {
			for _, change := range []func(reflect.Value){
				func(v reflect.Value) {
					switch x := v.Addr().Interface().(type) {
					case *string:
						*x += "x"
					case *int64:
						*x ^= 1
					case *int:
						*x ^= 1
					case *byte:
						*x = tar.TypeFifo
					case *time.Time:
						*x = x.Add(time.Nanosecond)
					case *map[string]string:
						*x = map[string]string{"SCHILY.xattr.user.x": "1"}
					}
				},
				func(v reflect.Value) {
					switch x := v.Addr().Interface().(type) {
					case *int64:
						*x ^= 0o4000
					case *byte:
						*x = 'Z'
					case *time.Time:
						*x = x.Add(time.Hour)
					case *map[string]string:
						*x = map[string]string{"VENDOR.x": "1"}
					}
				},
			} {
				all := copied()
				change(reflect.ValueOf(&all[i].Header).Elem().Field(n))
				write(fmt.Sprintf("%s: %s", m.Name, h.Field(n).Name), all)
			}
		}
		write(m.Name+" removed", append(copied()[:i], members[i+1:]...))
		write(m.Name+" twice", append(copied(), m))
	}
	for _, flag := range []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeChar, 'Z', tar.TypeXGlobalHeader} {
		m := imagetest.TestMember{Header: tar.Header{Typeflag: flag, Name: "zz", Linkname: members[0].Name}}
		if flag == tar.TypeXGlobalHeader {
			m.Header = tar.Header{Typeflag: flag, PAXRecords: map[string]string{"path": "x"}}
		}
		write(fmt.Sprintf("a member of type %q more", flag), append(copied(), m))
	}
	write("the root directory's mode", append([]imagetest.TestMember{{Header: tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700, ModTime: imagetest.TestTime}}}, members...))
	f("bytes behind the end", append(bytes.Clone(raw), make([]byte, 512)...))
	padding := bytes.Clone(raw)
	padding[len(padding)-1] = 1
	f("a byte behind the end", padding)
}

// mutationBase is an image for two platforms, with what a rebuild needs every sort of member for.
func mutationBase(t testing.TB) v1.ImageIndex {
	img := imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.DirM("lib"), imagetest.LoaderM(), imagetest.LegacyM("lib/a", "1"), imagetest.LinkM("lib/b", "lib/a"), imagetest.FileM("etc/x", []byte("x"))},
		[]imagetest.TestMember{imagetest.FindingM("bin/static", false)})
	arm := imagetest.PlatformImage(t, "arm64", "two")
	return mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}, Annotations: map[string]string{"kept": "yes"}}},
		mutate.IndexAddendum{Add: arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}}})
}

func TestVerifyNoticesEveryChange(t *testing.T) {
	base := mutationBase(t)
	amd := imagetest.Must[*v1.IndexManifest](t)(base.IndexManifest()).Manifests[0].Digest
	source, dest := "oci:"+t.TempDir()+"/base", t.TempDir()+"/out"
	imagetest.Put(t, source, media.Result{Image: imagetest.Must[v1.Image](t)(base.Image(amd)), Index: base})
	imagetest.RebuildWith(t, source, "oci:"+dest, fallback.FallbackAuto)
	was := takeApart(t, dest)
	verify := func(p parts) (string, error) {
		v, err := images.Verify(context.Background(), p.store(t, was), images.VerifyOptions{Against: source, ScanOptions: images.ScanOptions{Shim: imagetest.TestShim}})
		if err != nil {
			return "", err
		}
		if n := v.Findings.Uncovered(); n > 0 {
			v.Problems = append(v.Problems, fmt.Sprintf("%d call sites that nothing catches", n))
		}
		return strings.Join(v.Problems, "\n"), nil
	}
	if problems, err := verify(*was); problems != "" || err != nil {
		t.Fatalf("the control: %v, problems\n%s", err, problems)
	}
	tried := 0
	noticed := func(what string, p parts) {
		tried++
		if problems, err := verify(p); problems == "" && err == nil {
			t.Errorf("%s: not noticed", what)
		}
	}
	imagetest.EachChange(t, was.config, func(what string, changed []byte) {
		p := *was
		p.config = changed
		noticed("config: "+what, p)
	})
	imagetest.EachChange(t, was.manifest, func(what string, changed []byte) {
		p := *was
		p.manifest = changed
		noticed("manifest: "+what, p)
	})
	imagetest.EachChange(t, was.index, func(what string, changed []byte) {
		p := *was
		p.index = changed
		noticed("index: "+what, p)
	})
	headers(t, was.layer, func(what string, changed []byte) {
		p := *was
		p.layer = changed
		noticed("added layer: "+what, p)
	})
	t.Logf("%d changes", tried)
	if tried < 400 {
		t.Errorf("got %d changes to try, want hundreds", tried)
	}
}
