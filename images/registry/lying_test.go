package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

// subject is an image in a registry.
type subject struct {
	image                   v1.Image
	manifest, config, layer []byte
	m                       *v1.Manifest
}

func newSubject(t *testing.T) subject {
	t.Helper()
	img := noiseImage(t, 900<<10) // more than what is sent with the end of an upload
	return subject{img, imagetest.Must[[]byte](t)(img.RawManifest()), imagetest.Must[[]byte](t)(img.RawConfigFile()),
		layerBytes(t, img, 0), imagetest.Must[*v1.Manifest](t)(img.Manifest())}
}

// lie answers a request, or returns false for the correct answer. n counts its requests from 1.
type lie func(w http.ResponseWriter, r *http.Request, n int64) bool

// says answers every such request with a status, headers ("Name: value") and a body.
func says(status int, body []byte, headers ...string) lie {
	return func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		w.Write(body)
		return true
	}
}

// once lies the first n times.
func once(n int64, l lie) lie {
	return func(w http.ResponseWriter, r *http.Request, i int64) bool { return i <= n && l(w, r, i) }
}

// raw answers with bytes that may not be HTTP, and closes the connection.
func raw(text string) lie {
	return func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			c.Write([]byte(text))
			c.Close()
		}
		return true
	}
}

func changed(b []byte) []byte {
	c := bytes.Clone(b)
	c[len(c)/2] ^= 1
	return c
}

// cutOff sends half of a body and closes the connection.
func cutOff(body []byte) lie {
	return func(w http.ResponseWriter, _ *http.Request, _ int64) bool {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.Write(body[:len(body)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// endless sends zeros until the other side closes the connection.
func endless(headers ...string) lie {
	return func(w http.ResponseWriter, r *http.Request, _ int64) bool {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				break
			}
		}
		return true
	}
}

// Errors of a registry when an image is pulled: each is an error that names the image or the blob, and nothing is
// stored, or the stored image is right.
func TestPullFromLiar(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	s := newSubject(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/noise:1", media.Result{Image: s.image})
	layer, config := s.m.Layers[0].Digest.String(), s.m.Config.Digest.String()
	mt := "Content-Type: " + string(s.m.MediaType)
	const manifests, page = "/manifests/1", "<html>please log in</html>"
	edited := func(from, to string) []byte {
		if !bytes.Contains(s.manifest, []byte(from)) {
			t.Fatalf("%s is not in %s", from, s.manifest)
		}
		return bytes.ReplaceAll(s.manifest, []byte(from), []byte(to))
	}
	size := fmt.Sprintf(`"size":%d`, s.m.Layers[0].Size)
	other := imagetest.TinyImage(t)
	otherManifest := imagetest.Must[[]byte](t)(other.RawManifest())
	for _, c := range []struct {
		name  string
		path  string // end of the path
		lie   lie
		by    string // reference; ":1" where empty
		fails bool
	}{
		{name: "truth", path: "/none", lie: says(200, nil)},
		{name: "page for a manifest", path: manifests, lie: says(200, []byte(page), "Content-Type: text/html"), fails: true},
		{name: "empty manifest", path: manifests, lie: says(200, nil, mt), fails: true},
		{name: "null", path: manifests, lie: says(200, []byte("null"), mt), fails: true},
		{name: "array", path: manifests, lie: says(200, []byte("[]"), mt), fails: true},
		{name: "manifest cut off", path: manifests, lie: says(200, s.manifest[:len(s.manifest)/2], mt), fails: true},
		{name: "manifest cut off once", path: manifests, lie: once(1, cutOff(s.manifest))},
		{name: "manifest always cut off", path: manifests, lie: cutOff(s.manifest), fails: true},
		{name: "digest of another manifest", path: manifests, lie: says(200, s.manifest, mt, "Docker-Content-Digest: "+layer)},
		{name: "digest of nothing", path: manifests, lie: says(200, s.manifest, mt, "Docker-Content-Digest: sha256:zz")},
		{name: "another manifest for a digest", path: "/manifests/" + imagetest.Must[v1.Hash](t)(s.image.Digest()).String(), lie: says(200, otherManifest, mt),
			by: "@" + imagetest.Must[v1.Hash](t)(s.image.Digest()).String(), fails: true},
		{name: "manifest called an index", path: manifests, lie: says(200, s.manifest, "Content-Type: application/vnd.oci.image.index.v1+json"), fails: true},
		{name: "manifest called schema 1", path: manifests, lie: says(200, s.manifest, "Content-Type: application/vnd.docker.distribution.manifest.v1+json"), fails: true},
		{name: "endless manifest", path: manifests, lie: endless(mt), fails: true},
		{name: "padded manifest", path: manifests, lie: says(200, append(bytes.Clone(s.manifest), bytes.Repeat([]byte(" "), 8<<20)...), mt), fails: true},
		{name: "negative size", path: manifests, lie: says(200, edited(size, `"size":-1`), mt), fails: true},
		{name: "size too small", path: manifests, lie: says(200, edited(size, `"size":1`), mt), fails: true},
		{name: "size too large", path: manifests, lie: says(200, edited(size, fmt.Sprintf(`"size":%d`, s.m.Layers[0].Size+1)), mt), fails: true},
		{name: "size beyond all bounds", path: manifests, lie: says(200, edited(size, `"size":9223372036854775807`), mt), fails: true},
		{name: "digest of a layer is invalid", path: manifests, lie: says(200, edited(layer, "sha256:"), mt), fails: true},
		{name: "digest of a layer is a path", path: manifests, lie: says(200, edited(layer, "../../../etc/passwd"), mt), fails: true},
		{name: "no layers", path: manifests, lie: says(200, edited(`"layers":[`, `"layers":[],"x":[`), mt), fails: true},
		{name: "two layers", path: manifests, lie: says(200, edited(`"layers":[`, `"layers":[{"mediaType":"`+string(s.m.Layers[0].MediaType)+`",`+size+`,"digest":"`+layer+`"},`), mt), fails: true},
		{name: "config of another image", path: config, lie: says(200, imagetest.Must[[]byte](t)(other.RawConfigFile())), fails: true},
		{name: "config is a page", path: config, lie: says(200, []byte(page), "Content-Type: text/html"), fails: true},
		{name: "config is endless", path: config, lie: endless(), fails: true},
		{name: "layer changed", path: layer, lie: says(200, changed(s.layer)), fails: true},
		{name: "layer changed once", path: layer, lie: once(1, says(200, changed(s.layer))), fails: true},
		{name: "layer too long", path: layer, lie: says(200, append(bytes.Clone(s.layer), 0)), fails: true},
		{name: "layer too short", path: layer, lie: says(200, s.layer[:len(s.layer)-1]), fails: true},
		{name: "layer is endless", path: layer, lie: endless(), fails: true},
		{name: "layer is empty", path: layer, lie: says(200, nil), fails: true},
		{name: "layer has no content", path: layer, lie: says(204, nil), fails: true},
		{name: "layer is not modified", path: layer, lie: says(304, nil), fails: true},
		{name: "layer is a page", path: layer, lie: says(200, []byte(page), "Content-Type: text/html"), fails: true},
		{name: "layer is gone", path: layer, lie: says(410, nil), fails: true},
		{name: "layer encoded again", path: layer, lie: says(200, imagetest.GzipOf(t, s.layer), "Content-Encoding: gzip"), fails: true},
		{name: "layer cut off once, then whole", path: layer, lie: func(w http.ResponseWriter, r *http.Request, n int64) bool {
			if n == 1 {
				return cutOff(s.layer)(w, r, n)
			}
			return says(200, s.layer)(w, r, n)
		}},
		{name: "layer cut off once, then another range", path: layer, lie: func(w http.ResponseWriter, r *http.Request, n int64) bool {
			if n == 1 {
				return cutOff(s.layer)(w, r, n)
			}
			return says(206, s.layer[1:], fmt.Sprintf("Content-Range: bytes 1-%d/%d", len(s.layer)-1, len(s.layer)))(w, r, n)
		}, fails: true},
		{name: "layer cut off once, then a range of another size", path: layer, lie: func(w http.ResponseWriter, r *http.Request, n int64) bool {
			if n == 1 {
				return cutOff(s.layer)(w, r, n)
			}
			var from int
			fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
			return says(206, changed(s.layer)[from:], fmt.Sprintf("Content-Range: bytes %d-%d/%d", from, len(s.layer)-1, len(s.layer)))(w, r, n)
		}, fails: true},
		{name: "layer cut off once, then no range", path: layer, lie: func(w http.ResponseWriter, r *http.Request, n int64) bool {
			if n == 1 {
				return cutOff(s.layer)(w, r, n)
			}
			return says(416, nil)(w, r, n)
		}, fails: true},
		{name: "redirected for ever", path: layer, lie: func(w http.ResponseWriter, r *http.Request, n int64) bool {
			return says(307, nil, "Location: "+r.URL.Path)(w, r, n)
		}, fails: true},
		{name: "redirected nowhere", path: layer, lie: says(307, nil), fails: true},
		{name: "redirected to no URL", path: layer, lie: says(307, nil, "Location: http://%zz"), fails: true},
		{name: "redirected to a file", path: layer, lie: says(307, nil, "Location: file:///etc/passwd"), fails: true},
		{name: "a login that gives nothing", path: manifests, lie: says(401, nil, `WWW-Authenticate: Bearer realm="http://`+f.Host+`/token"`), fails: true},
		{name: "a login without a realm", path: manifests, lie: says(401, nil, "WWW-Authenticate: Bearer"), fails: true},
		{name: "a login at no URL", path: "/v2/", lie: says(401, nil, `WWW-Authenticate: Bearer realm="http://%zz"`), fails: true},
		{name: "a login of an unknown kind", path: "/v2/", lie: says(401, nil, "WWW-Authenticate: Wish")},
		{name: "forbidden", path: manifests, lie: says(403, []byte(page)), fails: true},
		{name: "never there", path: manifests, lie: says(404, []byte(`{"errors":"none"}`)), fails: true},
		{name: "too many requests", path: manifests, lie: says(429, nil), fails: true},
		{name: "always ill", path: manifests, lie: says(500, bytes.Repeat([]byte("x"), 1<<20)), fails: true},
		{name: "ill once", path: manifests, lie: once(1, says(500, []byte(page)))},
		{name: "a status without a meaning", path: manifests, lie: says(299, s.manifest, mt), fails: true},
		{name: "no HTTP", path: manifests, lie: raw("what?\r\n\r\n"), fails: true},
		{name: "nothing", path: manifests, lie: raw(""), fails: true},
		{name: "nothing once", path: manifests, lie: once(1, raw(""))},
		{name: "early hints without end", path: manifests, lie: raw(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000)), fails: true},
		{name: "a header without end", path: manifests, lie: raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 20<<20)), fails: true},
		{name: "two lengths", path: layer, lie: raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"), fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n atomic.Int64
			f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
				return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, c.path) && c.lie(w, r, n.Add(1))
			})
			by := c.by
			if by == "" {
				by = ":1"
			}
			dest := filepath.Join(t.TempDir(), "out.tar")
			err := pull("docker://"+f.Host+"/a/noise"+by, "oci-archive:"+dest)
			_, stat := os.Stat(dest)
			if n.Load() == 0 && c.name != "truth" {
				t.Error("nothing was asked")
			}
			switch {
			case !c.fails:
				if err != nil {
					t.Fatal(err)
				}
				imagetest.SameImage(t, imagetest.Open(t, "oci-archive:"+dest).Image, s.image)
			case err == nil:
				t.Error("no error")
			case stat == nil:
				t.Errorf("%v: but something was stored", err)
			case !names(err, f.Host, layer, config, blob.ShortHash(s.m.Layers[0].Digest), blob.ShortHash(s.m.Config.Digest)):
				t.Errorf("%v: names nothing", err)
			case strings.Contains(err.Error(), "json: ") || strings.Contains(err.Error(), "runtime error"):
				t.Errorf("%v: in words of Go", err)
			}
			imagetest.WantEmpty(t, filepath.Dir(dest), map[bool][]string{true: nil, false: {"out.tar"}}[c.fails]...)
		})
	}
}

func names(err error, objects ...string) bool {
	for _, o := range objects {
		if strings.Contains(err.Error(), o) {
			return true
		}
	}
	return false
}

// pull copies an image.
func pull(source, dest string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	src, err := sources.Open(ctx, source, imagetest.Fast)
	if err != nil {
		return err
	}
	ref, err := media.ParseRef(dest)
	if err == nil {
		_, err = sources.Put(ctx, ref, media.Result{Image: src.Image, Index: src.Index}, imagetest.Fast)
	}
	return errors.Join(err, src.Close())
}

// Errors of a registry when an image is pushed: an error that names the registry, or the image arrives.
func TestPushToLiar(t *testing.T) {
	imagetest.CleanTemp(t)
	const page = "<html>please log in</html>"
	s := newSubject(t)
	digest := imagetest.Must[v1.Hash](t)(s.image.Digest()).String()
	unknown := []byte(`{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN","message":"blob unknown"}]}`)
	for _, c := range []struct {
		name         string
		method, path string // of the path a part
		lie          lie
		fails        bool
		try          int64 // requests at least, if it is tried again
	}{
		{name: "truth", method: "GET", path: "/none", lie: says(200, nil)},
		{name: "no place for an upload", method: "POST", path: "/uploads/", lie: says(202, nil), fails: true},
		{name: "a place that is not a URL", method: "POST", path: "/uploads/", lie: says(202, nil, "Location: http://%zz"), fails: true},
		{name: "a page for an upload", method: "POST", path: "/uploads/", lie: says(200, []byte(page)), fails: true},
		{name: "uploads are forbidden", method: "POST", path: "/uploads/", lie: says(403, nil), fails: true},
		{name: "uploads are ill", method: "POST", path: "/uploads/", lie: says(500, nil), fails: true, try: 3},
		{name: "a blob is taken and lost, and its manifest refused", method: "PUT", path: "/manifests/", lie: says(404, unknown), fails: true, try: 2},
		{name: "a blob was thought to be there", method: "PUT", path: "/manifests/", lie: once(1, says(404, unknown)), try: 2},
		{name: "a blob was thought to be there, by another word", method: "PUT", path: "/manifests/",
			lie: once(1, says(404, []byte(`{"errors":[{"code":"BLOB_UNKNOWN"}]}`))), try: 2},
		{name: "a part is refused", method: "PATCH", path: "/uploads/", lie: says(416, nil), fails: true},
		{name: "a part is too large", method: "PATCH", path: "/uploads/", lie: says(413, nil), fails: true},
		{name: "the end is refused", method: "PUT", path: "/uploads/", lie: says(400, nil), fails: true},
		{name: "the end is a page", method: "PUT", path: "/uploads/", lie: says(200, []byte(page)), fails: true},
		{name: "the end is not answered once", method: "PUT", path: "/uploads/", lie: once(1, raw("")), try: 2},
		{name: "the manifest is refused", method: "PUT", path: "/manifests/", lie: says(400, []byte(`{"errors":[{"code":"MANIFEST_INVALID"}]}`)), fails: true},
		{name: "the manifest is forbidden", method: "PUT", path: "/manifests/", lie: says(403, []byte(page)), fails: true},
		{name: "the manifest is ill", method: "PUT", path: "/manifests/", lie: says(500, nil), fails: true, try: 3},
		{name: "the manifest is ill once", method: "PUT", path: "/manifests/", lie: once(1, says(500, nil)), try: 2},
		{name: "the manifest is answered with a page", method: "PUT", path: "/manifests/", lie: says(200, []byte(page)), fails: true},
		{name: "the manifest is another there", method: "PUT", path: "/manifests/", lie: says(201, nil, "Docker-Content-Digest: "+s.m.Config.Digest.String()), fails: true},
		{name: "the manifest is not there", method: "PUT", path: "/manifests/", lie: says(201, nil), fails: true},
		{name: "the manifest is moved", method: "PUT", path: "/manifests/", lie: says(307, nil, "Location: /v2/elsewhere/manifests/1"), fails: true},
		{name: "the manifest is multiple", method: "PUT", path: "/manifests/", lie: says(300, nil, "Docker-Content-Digest: "+digest), fails: true},
		{name: "mounted, but not there", method: "POST", path: "/uploads/", lie: func(w http.ResponseWriter, r *http.Request, n int64) bool {
			return r.URL.Query().Get("mount") != "" && says(201, nil)(w, r, n)
		}},
		{name: "blobs are said to be ill", method: "HEAD", path: "/blobs/", lie: once(2, says(503, nil)), try: 2},
		{name: "blobs are forbidden", method: "HEAD", path: "/blobs/", lie: says(403, nil), fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := imagetest.NewRegistry(t)
			var n atomic.Int64
			repo := f.Host + "/b/" + strings.NewReplacer(" ", "-", ",", "").Replace(c.name)
			f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
				return r.Method == c.method && strings.Contains(r.URL.Path, c.path) && c.lie(w, r, n.Add(1))
			})
			_, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: repo + ":1"}, media.Result{Image: s.image}, imagetest.Fast)
			switch {
			case (err != nil) != c.fails:
				t.Errorf("got %v", err)
			case err != nil && !strings.Contains(err.Error(), f.Host):
				t.Errorf("%v: names no registry", err)
			}
			if n.Load() < c.try {
				t.Errorf("asked %d times, want %d", n.Load(), c.try)
			}
			f.Reset(nil)
			if !c.fails {
				imagetest.SameImage(t, imagetest.Open(t, "docker://"+repo+":1").Image, s.image)
			} else if resp, err := http.Get("http://" + strings.Replace(repo, "/", "/v2/", 1) + "/manifests/1"); err != nil || resp.StatusCode == 200 {
				t.Errorf("the name is there: %v, %v", resp, err)
			} else {
				resp.Body.Close()
			}
		})
	}
}

// An index whose entry or whose own manifest is refused is not pushed, and the error names the entry.
func TestPushOfIndexRefused(t *testing.T) {
	f := imagetest.NewRegistry(t)
	idx := imagetest.TinyIndex(t)
	all := imagetest.Must[*v1.IndexManifest](t)(idx.IndexManifest())
	for n, e := range append(all.Manifests, v1.Descriptor{}) {
		path, want := "/manifests/"+e.Digest.String(), "entry "+blob.ShortHash(e.Digest)
		if n == len(all.Manifests) {
			path, want = "/manifests/1", f.Host
		}
		f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method == "PUT" && strings.HasSuffix(r.URL.Path, path) && says(400, nil)(w, r, 0)
		})
		_, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: fmt.Sprintf("%s/index%d:1", f.Host, n)}, media.Result{Index: idx}, imagetest.Fast)
		imagetest.WantErr(t, err, nil, want)
	}
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == "HEAD" && strings.Contains(r.URL.Path, "/manifests/sha256:") && raw("")(w, r, 0)
	})
	_, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/asked:1"}, media.Result{Index: idx}, imagetest.Fast)
	imagetest.WantErr(t, err, nil, "entry "+blob.ShortHash(all.Manifests[0].Digest))
	f.Reset(nil)
	if _, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/index:1"}, media.Result{Index: idx}, imagetest.Fast); err != nil {
		t.Errorf("the control: %v", err)
	}
	// Entries that are there are not sent again.
	f.Reset(nil)
	if _, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/index:2"}, media.Result{Index: idx}, imagetest.Fast); err != nil {
		t.Error(err)
	}
	if n := f.Count("PUT "); n != 1 {
		t.Errorf("an index that is there: %d PUTs, want that of its name: %q", n, f.Seen)
	}
}

// An index has indexes in it down to a limit.
func TestPushOfNestedIndex(t *testing.T) {
	f := imagetest.NewRegistry(t)
	var idx v1.ImageIndex = mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: imagetest.TinyImage(t)})
	idx = mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: idx})
	for depth, fails := range map[int]string{1: "", 0: "nested more than"} {
		f.Reset(nil)
		o := imagetest.Fast.WithDefaults()
		repo := fmt.Sprintf("nested%d", depth)
		tag := imagetest.Must[name.Tag](t)(name.NewTag(f.Host + "/" + repo + ":1"))
		err := registry.NewUploads(o.Net, tag, nil).Index(context.Background(), tag, idx, depth)
		if fails != "" {
			imagetest.WantErr(t, err, nil, fails)
		} else if err != nil || f.Count("PUT /v2/"+repo+"/manifests/") != 3 {
			t.Errorf("%d levels: got %v, %q", depth, err, f.Seen)
		}
	}
}

// An image about another one is pushed together with the list of such images, whose digest is not the image's.
func TestPushOfReferrer(t *testing.T) {
	f := imagetest.NewRegistry(t)
	about := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: newSubject(t).m.Config.Digest, Size: 1}
	img := mutate.Subject(mutate.MediaType(noiseImage(t, 1<<16), types.OCIManifestSchema1), about).(v1.Image)
	imagetest.Put(t, "docker://"+f.Host+"/referrer:1", media.Result{Image: img})
	if f.Count("PUT /v2/referrer/manifests/sha256-") != 1 {
		t.Errorf("no list of referrers was sent: %q", f.Seen)
	}
}

// Blobs that a registry lost after this command uploaded them are uploaded again.
func TestPushOfLostBlobs(t *testing.T) {
	f := imagetest.NewRegistry(t)
	s := newSubject(t)
	o := imagetest.Fast.WithDefaults()
	push := func(tag string) error {
		_, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/lost" + tag}, media.Result{Image: s.image}, o)
		return err
	}
	if err := push(":1"); err != nil {
		t.Fatal(err)
	}
	refused, path := false, 0
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			path++
		}
		if r.Method != "PUT" || !strings.Contains(r.URL.Path, "/manifests/") || refused && path > 0 {
			return false
		}
		refused, path = true, 0
		return says(404, []byte(`{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN"}]}`))(w, r, 0)
	})
	if err := push(":2"); err != nil || !refused {
		t.Errorf("%v, refused: %v", err, refused)
	}
}

// layerBytes are those of a layer, in a registry.
func layerBytes(t testing.TB, img v1.Image, n int) []byte {
	t.Helper()
	rc := imagetest.Must[io.ReadCloser](t)(imagetest.Must[[]v1.Layer](t)(img.Layers())[n].Compressed())
	defer rc.Close()
	return imagetest.Must[[]byte](t)(io.ReadAll(rc))
}
