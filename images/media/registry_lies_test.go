package media_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// longAnswer is more than any answer may have, and more than a test waits for.
func longAnswer(w http.ResponseWriter) {
	part := bytes.Repeat([]byte(" "), 1<<20)
	for range 500 {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

// A registry that sends vfix around in circles, or more than it may, ends in an error with a hint.
func TestRegistryNeverEnds(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: img})
	raw := string(imagetest.Must[[]byte](t)(img.RawManifest()))
	m := imagetest.Must[*v1.Manifest](t)(img.Manifest())
	config := m.Config.Digest.String()
	layer := m.Layers[0].Digest.String()
	around := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	}
	for _, c := range []struct {
		name, path string // the end of the path
		answer     func(http.ResponseWriter, *http.Request)
		says       string
	}{
		{"manifest, redirects", "/manifests/1", around, "more than 10 redirects"},
		{"config, redirects", config, around, "more than 10 redirects"},
		{"layer, redirects", layer, around, "more than 10 redirects"},
		{"tags, redirects", "/tags/list", around, "more than 10 redirects"},
		{"manifest, long", "/manifests/1", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", string(m.MediaType))
			longAnswer(w)
		}, fmt.Sprintf("more than %d bytes", blob.MaxManifest)},
		{"config, long", "/manifests/1", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", string(m.MediaType))
			io.WriteString(w, strings.Replace(raw, fmt.Sprintf(`"size":%d`, m.Config.Size), `"size":3000000000`, 1))
		}, "got 3000000000 bytes, want at most"},
		{"no config", "/manifests/1", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", string(m.MediaType))
			io.WriteString(w, "{}")
		}, "without the digest of a config"},
		{"tags, long", "/tags/list", func(w http.ResponseWriter, r *http.Request) { longAnswer(w) }, "the registry's answer: more than"},
		{"error, long", "/v2/", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			longAnswer(w)
		}, "418"},
		{"error, long text", "/manifests/1", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"errors":[{"message":"%s"}]}`, strings.Repeat("x", 50000))
		}, "xxx…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests := 0
			f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, c.path) {
					return false
				}
				if requests++; requests > 50 {
					t.Error("it goes on for ever")
					w.WriteHeader(http.StatusNotFound)
					return true
				}
				c.answer(w, r)
				return true
			})
			var err error
			if strings.HasPrefix(c.name, "tags") {
				err = media.EachTags(context.Background(), imagetest.Must[name.Repository](t)(name.NewRepository(f.Host+"/a/tiny")), imagetest.Fast.WithDefaults(), func([]name.Tag) error { return nil })
			} else {
				var src *media.Source
				if src, err = sources.Open(context.Background(), "docker://"+f.Host+"/a/tiny:1", imagetest.Fast); err == nil {
					var rc io.ReadCloser
					if rc, err = imagetest.Must[[]v1.Layer](t)(src.Image.Layers())[0].Compressed(); err == nil {
						rc.Close()
					}
				}
			}
			imagetest.WantErr(t, err, nil, "registry "+f.Host, c.says)
			if strings.Contains(fmt.Sprint(err), "http://") || len(fmt.Sprint(err)) > 1000 {
				t.Errorf("got %d bytes: %v", len(fmt.Sprint(err)), err)
			}
			if hinterr.HintOf(err) == "" {
				t.Errorf("no hint: %v", err)
			}
		})
	}
}

// A layer that does not end is read no further than its manifest says.
func TestRegistryLayerNeverEnds(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: img})
	layer := imagetest.Must[*v1.Manifest](t)(img.Manifest()).Layers[0]
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, layer.Digest.String()) {
			longAnswer(w)
			return true
		}
		return false
	})
	src := imagetest.Open(t, "docker://"+f.Host+"/a/tiny:1")
	rc := imagetest.Must[io.ReadCloser](t)(blob.OpenUnverified(imagetest.Must[[]v1.Layer](t)(src.Image.Layers())[0]))
	defer rc.Close()
	n, err := io.Copy(io.Discard, rc)
	imagetest.WantErr(t, err, hinterr.ErrDamaged, fmt.Sprintf("more than %d bytes", layer.Size))
	if n > layer.Size+1<<20 {
		t.Errorf("read %d bytes", n)
	}
}

// A push is done when the registry has the manifest, and not when something answers "200 OK".
func TestPushIsThere(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	digest := imagetest.Must[v1.Hash](t)(img.Digest()).String()
	page := func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>log in</html>")
		return true
	}
	for _, c := range []struct {
		name string
		put  func(http.ResponseWriter, *http.Request) bool
		want string // in the error; "" for none
	}{
		{"page", page, "the registry has none under this name"},
		{"other digest", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("ab", 32))
			w.WriteHeader(http.StatusCreated)
			return true
		}, "the registry has sha256:abab"},
		{"no digest", func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusAccepted)
			return true
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.Method == "PUT" && strings.Contains(r.URL.Path, "/manifests/"):
					return c.put(w, r)
				case r.Method == "GET" && strings.Contains(r.URL.Path, "/manifests/") && c.want == "":
					w.Write(imagetest.Must[[]byte](t)(img.RawManifest()))
					return true
				}
				return false
			})
			_, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/b/tiny:1"}, media.Result{Image: img}, imagetest.Fast)
			if c.want != "" {
				imagetest.WantErr(t, err, hinterr.ErrDamaged, "repository b/tiny", digest, c.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// A mount that is answered "201 Created" without the blob is found out when the manifest is refused: then the
// blobs are sent.
func TestMountThatIsNone(t *testing.T) {
	f := imagetest.NewRegistry(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: imagetest.TinyImage(t)})
	src := imagetest.Open(t, "docker://"+f.Host+"/a/tiny:1")
	layer := imagetest.Must[*v1.Manifest](t)(src.Image.Manifest()).Layers[0].Digest.String()
	for _, loses := range []bool{false, true} {
		there := false
		f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
			switch q := r.URL.Query(); {
			case r.Method == "POST" && q.Has("mount"):
				w.WriteHeader(http.StatusCreated)
			case r.Method == "HEAD" && strings.HasSuffix(r.URL.Path, "/b/tiny/blobs/"+layer) && !there:
				w.WriteHeader(http.StatusNotFound)
			case r.Method == "PUT" && strings.Contains(r.URL.Path, "/manifests/") && !there:
				w.WriteHeader(http.StatusNotFound)
				io.WriteString(w, `{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN","message":"blob unknown to registry"}]}`)
			case r.Method == "PUT" && q.Get("digest") == layer:
				there = !loses
				return false
			default:
				return false
			}
			return true
		})
		_, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/b/tiny:1"}, media.Result{Image: src.Image}, imagetest.Fast)
		if loses {
			imagetest.WantErr(t, err, nil, "repository b/tiny", "accepted all blobs, but does not have them")
		} else if err != nil {
			t.Errorf("%v: %q", err, f.Seen)
		}
	}
}

// Invalid tags in a registry's list are not listed: they may become a part of a path.
func TestTagsThatAreNone(t *testing.T) {
	f := imagetest.NewRegistry(t)
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return false
		}
		io.WriteString(w, `{"name":"a/tiny","tags":["ok","","-o","../../x","a b","x\n","_1.0-b"]}`)
		return true
	})
	var got []string
	err := media.EachTags(context.Background(), imagetest.Must[name.Repository](t)(name.NewRepository(f.Host+"/a/tiny")), imagetest.Fast.WithDefaults(), func(tags []name.Tag) error {
		for _, tag := range tags {
			got = append(got, tag.TagStr())
		}
		return nil
	})
	if want := "ok _1.0-b"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %q, %v, want %s", got, err, want)
	}
}
