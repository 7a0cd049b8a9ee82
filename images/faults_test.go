package images_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/provenance"
	"vfix.dev/vfix/tests/imagetest"
)

// faultyBase has something of everything: a loader, files to patch, one that stays, records of dpkg.
func faultyBase(t *testing.T) v1.Image {
	return imagetest.Stack(t,
		[]imagetest.TestMember{imagetest.DirM("lib"), imagetest.LoaderM(), imagetest.LegacyM("lib/a", "1"), imagetest.FindingM("bin/static", false), imagetest.FileM("etc/x", []byte("x"))},
		[]imagetest.TestMember{imagetest.FileM("var/lib/dpkg/info/a.md5sums", []byte(strings.Repeat("0", 32)+"  lib/a\n"))})
}

// Whichever call of an image or its layers fails, there is an error, or the result is the same.
func TestImageFaults(t *testing.T) {
	imagetest.CleanTemp(t)
	img := faultyBase(t)
	source, result, statement := imagetest.StoreOCI(t, img), "oci:"+t.TempDir()+"/out:x", t.TempDir()+"/statement"
	o := images.RebuildOptions{Version: "1", Fallback: fallback.FallbackAlways, UpdateDpkg: true, Provenance: statement, ScanOptions: images.ScanOptions{Shim: imagetest.TestShim, Jobs: 1}}
	o.Dest = result
	imagetest.Must[*images.Rebuilt](t)(images.Rebuild(t.Context(), source, o))
	stated := imagetest.Must[*provenance.Stated](t)(provenance.Find(t.Context(), imagetest.Open(t, result), statement, media.Options{}))
	faulty := func(source string, f *imagetest.Faults) *media.Source {
		src := *imagetest.Open(t, source)
		src.Image = imagetest.FaultyImage{Image: src.Image, F: f}
		return &src
	}
	verified := func(v *images.Verified, err error) (string, error) {
		if err != nil {
			return "", err
		}
		return fmt.Sprint(v.Compared, v.Added, v.Corrected, v.Problems, v.NotCompared), nil
	}
	more := imagetest.StoreOCI(t, imagetest.Must[v1.Image](t)(mutate.AppendLayers(imagetest.Open(t, result).Image, imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.FileM("etc/x", []byte("y")))))))
	other := imagetest.StoreOCI(t, withLastLayer(t, imagetest.Open(t, result).Image, imagetest.BytesLayer(t, imagetest.TarMembers(t, imagetest.LegacyM("lib/a", "2"), imagetest.FileM("etc/ld.so.preload", []byte("x"))))))
	// Texts that differ: a comparison that ends early has fewer problems.
	out := imagetest.Open(t, result).Image
	c := imagetest.Must[*v1.ConfigFile](t)(out.ConfigFile()).Config
	c.Env = append(c.Env, "OTHER=1")
	texts := imagetest.StoreOCI(t, mutate.Annotations(imagetest.Must[v1.Image](t)(mutate.Config(out, c)), map[string]string{"other": "1"}).(v1.Image))
	vo := func(f *imagetest.Faults) images.VerifyOptions {
		vo := images.VerifyOptions{Version: "1", ScanOptions: o.ScanOptions}
		vo.Media.Progress = f
		return vo
	}
	for name, c := range map[string]struct {
		least int64
		do    func(f *imagetest.Faults) (string, error)
	}{
		"scan": {10, func(f *imagetest.Faults) (string, error) {
			s := imagetest.TestSession(t)
			s.Progress = f
			defer s.Close()
			found, err := images.ScanSource(t.Context(), s, faulty(source, f), o.ScanOptions)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(imagetest.Paths(found), found.Fallback, found.Warnings), nil
		}},
		"rebuild": {20, func(f *imagetest.Faults) (string, error) {
			to := t.TempDir()
			o := o
			o.Dest, o.Provenance, o.Media.Progress = "oci:"+to+"/out:x", to+"/statement", f
			s := images.RebuildSession(o)
			defer s.Close()
			r, err := images.RebuildSource(t.Context(), s, faulty(source, f), o)
			if err != nil {
				imagetest.WantEmpty(t, to)
				return "", err
			}
			return fmt.Sprint(r.Digest, imagetest.Open(t, o.Dest).Digest, r.Packages, string(imagetest.Must[[]byte](t)(os.ReadFile(to+"/statement")))), nil
		}},
		"verify: source": {20, func(f *imagetest.Faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), imagetest.Open(t, source), faulty(result, f), stated, vo(f)))
		}},
		"verify: base": {10, func(f *imagetest.Faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), faulty(source, f), imagetest.Open(t, result), stated, vo(f)))
		}},
		"verify: source with other texts": {20, func(f *imagetest.Faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), imagetest.Open(t, source), faulty(texts, f), nil, vo(f)))
		}},
		"verify: base of other texts": {10, func(f *imagetest.Faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), faulty(source, f), imagetest.Open(t, texts), nil, vo(f)))
		}},
		"verify: by its statement": {20, func(f *imagetest.Faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), nil, faulty(result, f), stated, vo(f)))
		}},
		"verify: another added layer": {20, func(f *imagetest.Faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), imagetest.Open(t, source), faulty(other, f), nil, vo(f)))
		}},
		"verify: other layers": {20, func(f *imagetest.Faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), faulty(source, f), imagetest.Open(t, more), nil, images.VerifyOptions{ScanOptions: images.ScanOptions{Jobs: 1}}))
		}},
		"verify: source with other layers": {20, func(f *imagetest.Faults) (string, error) {
			return verified(images.VerifyPair(t.Context(), imagetest.Open(t, source), faulty(more, f), nil, images.VerifyOptions{ScanOptions: images.ScanOptions{Jobs: 1}}))
		}},
	} {
		t.Run(name, func(t *testing.T) { imagetest.EachFault(t, c.least, c.do) })
	}
}

// The same of each request to a registry that is refused.
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
		do    func(images.ScanOptions) (string, error)
	}{
		"scan": {5, func(so images.ScanOptions) (string, error) {
			f, err := images.Scan(t.Context(), source, so)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(imagetest.Paths(f), len(f.Levels)), nil
		}},
		"rebuild": {20, func(so images.ScanOptions) (string, error) {
			n++
			o := o
			o.Dest, o.ScanOptions = fmt.Sprintf("docker://%s/out%d:1", reg.Host, n), so
			r, err := images.Rebuild(t.Context(), source, o)
			reg.Reset(nil)
			if err != nil {
				imagetest.OpenErr(t, o.Dest) // nothing has its name
				return "", err
			}
			return fmt.Sprint(r.Digest, imagetest.Open(t, o.Dest).Digest, len(r.Levels), len(r.Provenance)), nil
		}},
		"verify": {20, func(so images.ScanOptions) (string, error) {
			v, err := images.Verify(t.Context(), o.Dest, images.VerifyOptions{Against: source, Provenance: true, Version: "1", ScanOptions: so})
			if err != nil {
				return "", err
			}
			return fmt.Sprint(v.Compared, v.Problems, v.NotCompared), nil
		}},
		"convert": {10, func(so images.ScanOptions) (string, error) {
			to := t.TempDir()
			c, err := images.Convert(t.Context(), source, images.ConvertOptions{Dest: "oci:" + to + "/x:x", Media: so.Media})
			if err != nil {
				imagetest.WantEmpty(t, to)
				return "", err
			}
			return c.Digest, nil
		}},
		"unpack": {5, func(so images.ScanOptions) (string, error) {
			to := t.TempDir()
			if err := images.Unpack(t.Context(), source, to, so.Media); err != nil {
				return "", err
			}
			return imagetest.FileListing(t, to), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			imagetest.EachFault(t, c.least, func(f *imagetest.Faults) (string, error) {
				reg.Reset(func(w http.ResponseWriter, r *http.Request) bool {
					if f.Err() == nil {
						return false
					}
					w.WriteHeader(http.StatusForbidden)
					return true
				})
				so := o.ScanOptions
				so.Media.Progress = f
				return c.do(so)
			})
		})
	}
}
