package media_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func TestRegistryImage(t *testing.T) {
	imagetest.CleanTemp(t)
	imagetest.NoDaemon(t)
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	digest := imagetest.Must[v1.Hash](t)(img.Digest()).String()
	got := imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: img})
	if want := f.Host + "/a/tiny:1@" + digest; got.Reference != want || got.Digest != digest {
		t.Errorf("got %+v, want %s", got, want)
	}
	for _, source := range []string{"docker://" + f.Host + "/a/tiny:1", "docker://" + got.Reference, f.Host + "/a/tiny:1"} {
		src := imagetest.Open(t, source)
		if src.Digest != digest || src.Ref.Transport != media.Registry || src.Ref.Guessed {
			t.Errorf("%s: got %+v, digest %s", source, src.Ref, src.Digest)
		}
		imagetest.SameImage(t, src.Image, img)
	}
	if s := imagetest.Put(t, "docker://"+f.Host+"/a/tiny", media.Result{Image: img}); s.Reference != f.Host+"/a/tiny:latest@"+digest {
		t.Errorf("without a tag: got %s", s.Reference)
	}
	_, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: got.Reference}, media.Result{Image: img}, imagetest.Fast)
	imagetest.WantErr(t, err, nil, "is not the name of an image")
}

// Between repositories of one registry the base layers are mounted and not sent.
func TestRegistryMount(t *testing.T) {
	f := imagetest.NewRegistry(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: imagetest.TinyImage(t)})
	src := imagetest.Open(t, "docker://"+f.Host+"/a/tiny:1")
	// go-containerregistry's registry has one set of blobs for all repositories; this one
	// has none in b, and mounts.
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == "HEAD" && strings.HasPrefix(r.URL.Path, "/v2/b/tiny/blobs/"):
			w.WriteHeader(http.StatusNotFound)
		case r.Method == "POST" && r.URL.Query().Has("mount"):
			w.WriteHeader(http.StatusCreated)
		default:
			return false
		}
		return true
	})
	wrapped := blob.NewEditedImage(imagetest.Must[[]byte](t)(src.Image.RawConfigFile()), imagetest.Must[[]v1.Layer](t)(src.Image.Layers()), src.Image.RawManifest)
	imagetest.Put(t, "docker://"+f.Host+"/b/tiny:1", media.Result{Image: wrapped})
	if f.Count("mount=") != 2 || f.Count("from=a%2Ftiny") != 2 || f.Count("PATCH ") > 1 || f.Count("GET /v2/a/tiny/blobs") > 1 {
		t.Errorf("requests: %q", f.Seen)
	}
}

func TestRegistryIndex(t *testing.T) {
	f := imagetest.NewRegistry(t)
	idx := imagetest.TinyIndex(t)
	want := imagetest.Must[v1.Hash](t)(idx.Digest()).String()
	if s := imagetest.Put(t, "docker://"+f.Host+"/a/multi:1", media.Result{Index: idx}); s.Digest != want {
		t.Errorf("got %s, want %s", s.Digest, want)
	}
	src := imagetest.Open(t, "docker://"+f.Host+"/a/multi:1")
	if src.Digest != want || src.Entry.Annotations["kept"] != "yes" {
		t.Errorf("got %s, entry %+v", src.Digest, src.Entry)
	}
	fresh := imagetest.PlatformImage(t, "amd64", "derived")
	ridx := imagetest.Must[v1.ImageIndex](t)(media.ReplaceInIndex(src.Index, src.Entry, fresh))
	n := &imagetest.Notes{}
	o := imagetest.Fast
	o.Progress = n
	if _, err := sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/b/multi:2"}, media.Result{Image: fresh, Index: ridx}, o); err != nil {
		t.Fatal(err)
	}
	if len(n.Text) != 1 || !strings.Contains(n.Text[0], "attestation manifest sha256:") {
		t.Errorf("notes: %q", n.Text)
	}
	out := imagetest.Open(t, "docker://"+f.Host+"/b/multi:2")
	imagetest.SameImage(t, out.Image, fresh)
	if err := validate.Index(out.Index); err != nil {
		t.Error(err)
	}
	raw := string(imagetest.Must[[]byte](t)(out.Index.RawManifest()))
	if !strings.Contains(raw, `"variant":   "v8", "x-unknown":[1, 2]`) {
		t.Errorf("the other platform's entry was rewritten: %s", raw)
	}
}

// A registry's answer ends in an error that names it and the repository.
func TestRegistryAnswers(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: img})
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(code); return true }
	}
	drop := func(w http.ResponseWriter, r *http.Request) bool {
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		spoil func(http.ResponseWriter, *http.Request) bool
		kind  error
		says  string
		tries int // at least
	}{
		"401":  {status(401), hinterr.ErrUnauthorized, "401 Unauthorized", 1},
		"403":  {status(403), hinterr.ErrUnauthorized, "403 Forbidden", 1},
		"404":  {status(404), hinterr.ErrNotFound, "404 Not Found", 1},
		"429":  {status(429), nil, "too many requests (429", 3},
		"500":  {status(500), nil, "500 Internal Server Error", 3},
		"drop": {drop, nil, "the connection broke", 3},
	} {
		t.Run(name, func(t *testing.T) {
			f.Reset(c.spoil)
			_, err := sources.Open(context.Background(), "docker://"+f.Host+"/a/tiny:1", imagetest.Fast)
			imagetest.WantErr(t, err, c.kind, "registry "+f.Host, "repository a/tiny", c.says)
			if strings.Contains(fmt.Sprint(err), "http://") {
				t.Errorf("a URL in %q", err)
			}
			if n := f.Count(" /v2/"); n < c.tries {
				t.Errorf("got %d tries, want %d", n, c.tries)
			}
			_, err = sources.Put(context.Background(), media.Ref{Transport: media.Registry, Name: f.Host + "/b/tiny:1"}, media.Result{Image: img}, imagetest.Fast)
			imagetest.WantErr(t, err, nil, "registry "+f.Host, "repository b/tiny")
		})
	}
	f.Reset(nil)
	imagetest.SameImage(t, imagetest.Open(t, "docker://"+f.Host+"/a/tiny:1").Image, img) // nothing was wrong with it
	imagetest.WantErr(t, imagetest.OpenErr(t, "docker://"+f.Host+"/a/tiny:2"), hinterr.ErrNotFound, "no such image")
}

// A layer whose connection breaks, or whose content is another one, is an error that names
// the host or the digest, and no output exists afterwards.
func TestRegistryLayer(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	imagetest.Put(t, "docker://"+f.Host+"/a/tiny:1", media.Result{Image: img})
	l := imagetest.Must[[]v1.Layer](t)(img.Layers())[0]
	digest := imagetest.Must[v1.Hash](t)(l.Digest())
	size := imagetest.Must[int64](t)(l.Size())
	dir := t.TempDir()
	for _, c := range []struct {
		name, says string
		body       func(w http.ResponseWriter)
	}{
		{"cut", "registry " + f.Host, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			w.Write([]byte{0x1f, 0x8b, 0x08})
		}},
		{"other", digest.Hex, func(w http.ResponseWriter) { w.Write(make([]byte, size)) }},
		{"long", "layer", func(w http.ResponseWriter) { w.Write(make([]byte, size+1)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != "GET" || !strings.HasSuffix(r.URL.Path, digest.String()) {
					return false
				}
				c.body(w)
				return true
			})
			src := imagetest.Must[*media.Source](t)(sources.Open(context.Background(), "docker://"+f.Host+"/a/tiny:1", imagetest.Fast))
			for _, dest := range []string{"oci:" + dir + "/x", "docker-archive:" + dir + "/x.tar"} {
				_, err := sources.Put(context.Background(), imagetest.Must[media.Ref](t)(media.ParseRef(dest)), media.Result{Image: src.Image}, imagetest.Fast)
				if c.name != "long" {
					imagetest.WantErr(t, err, nil, c.says)
				} else if err == nil {
					t.Error("no error")
				}
			}
			imagetest.WantEmpty(t, dir)
		})
	}
}

// Credentials come from docker's config, and no message has them in it.
func TestRegistryLogin(t *testing.T) {
	f := imagetest.NewRegistry(t)
	const secret = "s3cretpw"
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		if _, pw, _ := r.BasicAuth(); pw == secret && !strings.Contains(r.URL.Path, "/closed/") {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	r, to := media.Result{Image: imagetest.TinyImage(t)}, media.Ref{Transport: media.Registry, Name: f.Host + "/open/tiny:1"}
	_, err := sources.Put(context.Background(), to, r, imagetest.Fast)
	imagetest.WantErr(t, err, hinterr.ErrUnauthorized, f.Host)
	if h := hinterr.HintOf(err); h != "docker login "+f.Host {
		t.Errorf("hint: %q", h)
	}
	auth := base64.StdEncoding.EncodeToString([]byte("u:" + secret))
	imagetest.Write(t, os.Getenv("DOCKER_CONFIG")+"/config.json", []byte(`{"auths":{"`+f.Host+`":{"auth":"`+auth+`"}}}`))
	if _, err := sources.Put(context.Background(), to, r, imagetest.Fast); err != nil {
		t.Error(err)
	}
	to.Name = f.Host + "/closed/tiny:1"
	_, err = sources.Put(context.Background(), to, r, imagetest.Fast)
	imagetest.WantErr(t, err, hinterr.ErrUnauthorized, "repository closed/tiny")
	if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), auth) {
		t.Errorf("the password is in %q", err)
	}
}

// A registry is asked for a digest with HEAD, and with GET only if it does not answer that.
func TestRegistryDigest(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	imagetest.Put(t, "docker://"+f.Host+"/a:1", media.Result{Image: img})
	for _, c := range []struct {
		head, get int // statuses; 0 for the registry's own
		kind      error
		says      string
		gets      int // of the manifest
	}{
		{0, 500, nil, "", 0}, {405, 0, nil, "", 1}, {404, 0, hinterr.ErrNotFound, "no such image", 0}, {401, 0, hinterr.ErrUnauthorized, "no access", 0}, {405, 404, hinterr.ErrNotFound, "repository a, tag 1: no such image", 1},
	} {
		f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
			status := map[string]int{"HEAD": c.head, "GET": c.get}[r.Method]
			if status == 0 || !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			w.WriteHeader(status)
			return true
		})
		var notes imagetest.Notes
		o := imagetest.Fast
		o.Progress = &notes
		got, err := media.RegistryDigest(t.Context(), media.Ref{Name: f.Host + "/a:1"}, o.WithDefaults())
		if c.says != "" {
			imagetest.WantErr(t, err, c.kind, "registry "+f.Host, c.says)
		} else if want := imagetest.Must[v1.Hash](t)(img.Digest()).String(); got != want || err != nil {
			t.Errorf("HEAD %d, GET %d: got %s, %v, want %s", c.head, c.get, got, err, want)
		}
		if n := f.Count("GET /v2/a/manifests/1"); n != c.gets || len(notes.Text) != 0 {
			t.Errorf("HEAD %d, GET %d: got %d requests, notes %q", c.head, c.get, n, notes.Text)
		}
	}
	_, err := media.RegistryDigest(t.Context(), media.Ref{Name: "UPPER"}, imagetest.Fast.WithDefaults())
	imagetest.WantErr(t, err, nil, "is not the name of an image")
}

// Layers that are needed again are read once, until the source is closed.
func TestRegistryKeep(t *testing.T) {
	imagetest.CleanTemp(t)
	f := imagetest.NewRegistry(t)
	imagetest.Put(t, "docker://"+f.Host+"/a:1", media.Result{Image: imagetest.TinyImage(t)})
	for _, keep := range []bool{true, false} {
		f.Reset(nil)
		src := imagetest.Open(t, "docker://"+f.Host+"/a:1")
		if keep {
			src.Keep()
		}
		for range 2 {
			for _, l := range imagetest.Must[[]v1.Layer](t)(src.Image.Layers()) {
				rc := imagetest.Must[io.ReadCloser](t)(l.Uncompressed())
				if _, err := io.Copy(io.Discard, rc); err != nil {
					t.Error(err)
				}
				rc.Close()
			}
		}
		if n, want := f.Count("/blobs/")-1, map[bool]int{true: 2, false: 4}[keep]; n != want { // one of the config
			t.Errorf("keep %v: got %d requests for layers, want %d", keep, n, want)
		}
	}
}

// The repositories of a registry, all or those below a name, and the errors of registries without a list.
func TestEachRepository(t *testing.T) {
	f := imagetest.NewRegistry(t)
	answer := func(status int, text, next string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/_catalog") {
				return false
			}
			if next != "" {
				w.Header().Set("Link", "<"+next+`>; rel="next"`)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, text)
			return true
		}
	}
	const list = `{"repositories":["a","a/b","ab","c/a","a/b/c"]}`
	stop := fmt.Errorf("stop")
	for _, c := range []struct {
		prefix, at string
		status     int
		text, next string
		want       string
		kind       error
		says, hint string
	}{
		{status: 200, text: list, want: "a a/b ab c/a a/b/c"}, {prefix: "a", status: 200, text: list, want: "a a/b a/b/c"}, {prefix: "a/b", status: 200, text: list, want: "a/b a/b/c"}, {prefix: "none", status: 200, text: list},
		{at: "ab", status: 200, text: list, want: "a a/b ab", kind: stop, says: "stop"},
		{status: 200, text: list, next: "/v2/_catalog?n=1", want: "a a/b ab c/a a/b/c a a/b ab c/a a/b/c", kind: hinterr.ErrDamaged, says: "list of repositories: the registry's list repeats itself"},
		{status: 404, kind: hinterr.ErrNotFound, says: "list of repositories: the registry has none (404", hint: "name one of its repositories: docker://" + f.Host + "/REPOSITORY"},
		{status: 401, kind: hinterr.ErrUnauthorized, says: "list of repositories: no access", hint: "docker login " + f.Host + "; without the right to list them, name one of its repositories"},
		{status: 418, says: "the registry answers 418", hint: "try again"}, {status: 200, text: "<html>", says: "list of repositories: "},
	} {
		f.Reset(answer(c.status, c.text, c.next))
		var got []string
		err := media.EachRepository(t.Context(), f.Host, c.prefix, imagetest.Fast.WithDefaults(), func(r name.Repository) error {
			if got = append(got, r.RepositoryStr()); r.RepositoryStr() == c.at {
				return stop
			}
			return nil
		})
		if all := strings.Join(got, " "); all != c.want || (err == nil) != (c.says == "") {
			t.Errorf("%+v: got %s, %v", c, all, err)
		}
		if c.says != "" && err != nil {
			imagetest.WantErr(t, err, c.kind, c.says)
			if !strings.Contains(hinterr.HintOf(err), c.hint) {
				t.Errorf("%+v: got the hint %q", c, hinterr.HintOf(err))
			}
		}
	}
	imagetest.WantErr(t, media.EachRepository(t.Context(), "a b", "", imagetest.Fast.WithDefaults(), func(name.Repository) error { return nil }), nil, "is not the name of an image")

	// The tags of one: f's error ends the list.
	imagetest.Put(t, "docker://"+f.Host+"/a:1", media.Result{Image: imagetest.TinyImage(t)})
	repo := imagetest.Must[name.Repository](t)(name.NewRepository(f.Host + "/a"))
	if err := media.EachTags(t.Context(), repo, imagetest.Fast.WithDefaults(), func([]name.Tag) error { return stop }); err != stop {
		t.Errorf("got %v", err)
	}
	none := imagetest.Must[name.Repository](t)(name.NewRepository(f.Host + "/none"))
	imagetest.WantErr(t, media.EachTags(t.Context(), none, imagetest.Fast.WithDefaults(), func([]name.Tag) error { return nil }), hinterr.ErrNotFound, "repository none, list of tags: no such repository")
}

func TestRegistryCancelled(t *testing.T) {
	f := imagetest.NewRegistry(t)
	ctx, cancel := context.WithCancel(context.Background())
	f.Reset(func(w http.ResponseWriter, r *http.Request) bool {
		cancel()
		<-r.Context().Done()
		return true
	})
	_, err := sources.Open(ctx, "docker://"+f.Host+"/a/tiny:1", imagetest.Fast)
	imagetest.WantErr(t, err, context.Canceled)
}

// A name that is nothing anywhere says all that was tried.
func TestOpenNameErrors(t *testing.T) {
	imagetest.NoDaemon(t)
	f := imagetest.NewRegistry(t)
	err := imagetest.OpenErr(t, f.Host+"/no/such:1")
	imagetest.WantErr(t, err, hinterr.ErrNotFound, "neither a file nor an image", "none.sock", "registry "+f.Host, "no such image")
	imagetest.WantErr(t, imagetest.OpenErr(t, "docker-daemon:redis"), hinterr.ErrNoDaemon, "none.sock")
	imagetest.WantErr(t, imagetest.OpenErr(t, "docker://UPPER"), nil, "is not the name of an image")
}
