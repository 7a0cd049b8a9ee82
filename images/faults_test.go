package images_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/tests/imagetest"
)

// Whatever fails once, there is an error, or the result is the same as without that.

var errFault = errors.New("the disk is gone")

// faults counts calls, of which one fails.
type faults struct{ calls, at atomic.Int64 }

func (f *faults) err() error {
	if f.calls.Add(1) == f.at.Load() {
		return errFault
	}
	return nil
}

// or is a result, or the fault.
func or[T any](f *faults, get func() (T, error)) (T, error) {
	if err := f.err(); err != nil {
		var none T
		return none, err
	}
	return get()
}

// faultyImage is an image of which any call may fail, and any read of a layer.
type faultyImage struct {
	v1.Image
	f *faults
}

func (i faultyImage) MediaType() (types.MediaType, error) { return or(i.f, i.Image.MediaType) }
func (i faultyImage) ConfigName() (v1.Hash, error)        { return or(i.f, i.Image.ConfigName) }
func (i faultyImage) ConfigFile() (*v1.ConfigFile, error) { return or(i.f, i.Image.ConfigFile) }
func (i faultyImage) RawConfigFile() ([]byte, error)      { return or(i.f, i.Image.RawConfigFile) }
func (i faultyImage) Digest() (v1.Hash, error)            { return or(i.f, i.Image.Digest) }
func (i faultyImage) Manifest() (*v1.Manifest, error)     { return or(i.f, i.Image.Manifest) }
func (i faultyImage) RawManifest() ([]byte, error)        { return or(i.f, i.Image.RawManifest) }
func (i faultyImage) Layers() (all []v1.Layer, err error) {
	layers, err := or(i.f, i.Image.Layers)
	for _, l := range layers {
		all = append(all, faultyLayer{l, i.f})
	}
	return all, err
}

type faultyLayer struct {
	v1.Layer
	f *faults
}

func (l faultyLayer) Digest() (v1.Hash, error)             { return or(l.f, l.Layer.Digest) }
func (l faultyLayer) DiffID() (v1.Hash, error)             { return or(l.f, l.Layer.DiffID) }
func (l faultyLayer) Size() (int64, error)                 { return or(l.f, l.Layer.Size) }
func (l faultyLayer) MediaType() (types.MediaType, error)  { return or(l.f, l.Layer.MediaType) }
func (l faultyLayer) Uncompressed() (io.ReadCloser, error) { return l.reader(l.Layer.Uncompressed) }
func (l faultyLayer) Compressed() (io.ReadCloser, error)   { return l.reader(l.Layer.Compressed) }

func (l faultyLayer) reader(open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	r, err := or(l.f, open)
	if err != nil {
		return nil, err
	}
	if err := l.f.err(); err != nil {
		r.Close()
		return io.NopCloser(io.MultiReader(strings.NewReader("\x1f\x8b\b"), failing{err})), nil
	}
	return r, nil
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// eachFault runs f without a fault, then with each. f's result is compared if it has no error.
func eachFault(t *testing.T, least int64, f func(t *testing.T, fault *faults) (string, error)) {
	fault := &faults{}
	want, err := f(t, fault)
	if err != nil {
		t.Fatal(err)
	}
	calls := fault.calls.Load()
	if calls < least {
		t.Errorf("got %d calls that can fail, want %d", calls, least)
	}
	failed := 0
	for n := range calls {
		fault.calls.Store(0)
		fault.at.Store(n + 1)
		got, err := f(t, fault)
		if err != nil {
			failed++
		} else if got != want {
			t.Errorf("fault %d: no error, and got %s, want %s", n+1, got, want)
		}
	}
	t.Logf("%d of %d faults are errors", failed, calls)
}

// faultyBase has something of everything: a loader, files to patch, one that stays, records of dpkg.
func faultyBase(t *testing.T) v1.Image {
	return imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.DirM("lib"), imagetest.LoaderM(), imagetest.LegacyM("lib/a", "1"), imagetest.FindingM("bin/static", false)},
		[]imagetest.TestMember{imagetest.FileM("var/lib/dpkg/info/a.md5sums", []byte(strings.Repeat("0", 32)+"  lib/a\n"))})
}

func TestImageFaults(t *testing.T) {
	imagetest.CleanTemp(t)
	img := faultyBase(t)
	source, result, statement := imagetest.StoreOCI(t, img), "oci:"+t.TempDir()+"/out:x", t.TempDir()+"/statement"
	o := images.RebuildOptions{Version: "1", Fallback: fallback.FallbackAlways, UpdateDpkg: true, Provenance: statement, ScanOptions: images.ScanOptions{Shim: imagetest.TestShim, Jobs: 1}}
	o.Dest = result
	imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), source, o))
	stated := imagetest.Must[*provenance.Stated](t)(provenance.Find(t.Context(), imagetest.Open(t, result), statement, media.Options{}))
	faulty := func(source string, f *faults) *media.Source {
		src := *imagetest.Open(t, source)
		src.Image = faultyImage{src.Image, f}
		return &src
	}
	verified := func(v *images.Verified, err error) (string, error) {
		if err != nil {
			return "", err
		}
		return fmt.Sprint(v.Compared, v.Added, v.Corrected, v.Problems, v.NotCompared), nil
	}
	more := imagetest.StoreOCI(t, imagetest.Must[v1.Image](t)(mutate.AppendLayers(imagetest.Open(t, result).Image, imagetest.BytesLayer(t, imagetest.TarMembers(t)))))
	vo := images.VerifyOptions{Version: "1", ScanOptions: o.ScanOptions}
	for name, c := range map[string]struct {
		least int64
		do    func(t *testing.T, f *faults) (string, error)
	}{
		"scan": {10, func(t *testing.T, f *faults) (string, error) {
			s := imagetest.TestSession(t)
			defer s.Close()
			found, err := images.ScanSource(t.Context(), s, faulty(source, f), o.ScanOptions)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(imagetest.Paths(found), found.Fallback, found.Warnings), nil
		}},
		"rebuild": {20, func(t *testing.T, f *faults) (string, error) {
			to := t.TempDir()
			o := o
			o.Dest, o.Provenance = "oci:"+to+"/out:x", to+"/statement"
			s := images.RebuildSession(o)
			defer s.Close()
			r, err := images.RebuildSource(t.Context(), s, faulty(source, f), o)
			if err != nil {
				imagetest.WantEmpty(t, to)
				return "", err
			}
			return fmt.Sprint(r.Digest, imagetest.Open(t, o.Dest).Digest, r.Packages, string(imagetest.Must[[]byte](t)(os.ReadFile(to+"/statement")))), nil
		}},
		"verify: source": {20, func(t *testing.T, f *faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), imagetest.Open(t, source), faulty(result, f), stated, vo))
		}},
		"verify: base": {10, func(t *testing.T, f *faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), faulty(source, f), imagetest.Open(t, result), stated, vo))
		}},
		"verify: by its statement": {20, func(t *testing.T, f *faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), nil, faulty(result, f), stated, vo))
		}},
		"verify: other layers": {20, func(t *testing.T, f *faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), faulty(source, f), imagetest.Open(t, more), nil, images.VerifyOptions{ScanOptions: images.ScanOptions{Jobs: 1}}))
		}},
	} {
		t.Run(name, func(t *testing.T) { eachFault(t, c.least, c.do) })
	}
}

// Each request to a registry is refused once.
func TestRequestFaults(t *testing.T) {
	imagetest.NoDaemon(t)
	imagetest.CleanTemp(t)
	reg := imagetest.NewRegistry(t)
	base := func(variant string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: imagetest.Stack(t, []imagetest.TestMember{imagetest.LegacyM("lib/a", variant)}),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64", Variant: variant}}}
	}
	plain := base("")
	source := "docker://" + reg.Host + "/base:1"
	imagetest.Put(t, source, media.Result{Image: plain.Add.(v1.Image), Index: mutate.AppendManifests(empty.Index, plain, base("v3"))})
	o := images.RebuildOptions{Version: "1", Provenance: images.ProvenanceAuto, ScanOptions: images.ScanOptions{Media: imagetest.Fast}}
	o.Dest = "docker://" + reg.Host + "/out:1"
	imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), source, o))
	n := 0
	for name, c := range map[string]struct {
		least int64
		do    func(t *testing.T) (string, error)
	}{
		"scan": {5, func(t *testing.T) (string, error) {
			f, err := images.Scan(t.Context(), source, o.ScanOptions)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(imagetest.Paths(f), len(f.Levels)), nil
		}},
		"rebuild": {20, func(t *testing.T) (string, error) {
			n++
			o := o
			o.Dest = fmt.Sprintf("docker://%s/out%d:1", reg.Host, n)
			r, err := images.Rebuild(t.Context(), source, o)
			reg.Reset(nil)
			if err != nil {
				imagetest.OpenErr(t, o.Dest) // nothing has its name
				return "", err
			}
			return fmt.Sprint(r.Digest, imagetest.Open(t, o.Dest).Digest, len(r.Levels), len(r.Provenance)), nil
		}},
		"verify": {20, func(t *testing.T) (string, error) {
			v, err := images.Verify(t.Context(), o.Dest, images.VerifyOptions{Against: source, Provenance: true, Version: "1", ScanOptions: o.ScanOptions})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(v.Compared, v.Problems, v.NotCompared), nil
		}},
		"convert": {10, func(t *testing.T) (string, error) {
			to := t.TempDir()
			c, err := images.Convert(t.Context(), source, images.ConvertOptions{Dest: "oci:" + to + "/x:x", Media: imagetest.Fast})
			if err != nil {
				imagetest.WantEmpty(t, to)
				return "", err
			}
			return c.Digest, nil
		}},
		"unpack": {5, func(t *testing.T) (string, error) {
			to := t.TempDir()
			if err := images.Unpack(t.Context(), source, to, imagetest.Fast); err != nil {
				return "", err
			}
			return imagetest.FileListing(t, to), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			eachFault(t, c.least, func(t *testing.T, f *faults) (string, error) {
				reg.Reset(func(w http.ResponseWriter, r *http.Request) bool {
					if f.err() == nil {
						return false
					}
					w.WriteHeader(http.StatusForbidden)
					return true
				})
				return c.do(t)
			})
		})
	}
}
