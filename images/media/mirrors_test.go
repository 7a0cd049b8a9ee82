package media_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/tests/imagetest"
)

func TestHubMirrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string { return imagetest.Write(t, filepath.Join(dir, name), []byte(text)) }
	none, bad := file("none", `{"debug": true}`), file("bad", `{"registry-mirrors": `)
	good := file("good", `{"registry-mirrors": ["https://m.example/", "http://127.0.0.1:5000", "https://m.example/path", "nonsense"]}`)
	for _, c := range []struct {
		files []string
		want  string
	}{
		{[]string{"/nowhere", none, bad, good}, "[m.example 127.0.0.1:5000]"},
		{[]string{none, bad}, "[]"},
	} {
		if got := fmt.Sprint(registry.HubMirrors(c.files)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// An image of the Hub comes from the mirror; one of another registry does not; what the
// mirror does not have is requested from the Hub.
func TestMirror(t *testing.T) {
	f := imagetest.NewRegistry(t)
	img := imagetest.TinyImage(t)
	imagetest.Put(t, "docker://"+f.Host+"/library/tiny:1", media.Result{Image: img})
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("HOME", config)
	if err := os.Mkdir(filepath.Join(config, "docker"), 0o700); err != nil {
		t.Fatal(err)
	}
	imagetest.Write(t, filepath.Join(config, "docker", "daemon.json"), []byte(`{"registry-mirrors": ["http://`+f.Host+`"]}`))
	f.Reset(nil)
	src := imagetest.Open(t, "docker://tiny:1")
	imagetest.SameImage(t, src.Image, img)
	if src.Ref.Name != "tiny:1" || f.Count("GET /v2/library/tiny/blobs/") == 0 {
		t.Errorf("%+v, requests %q", src.Ref, f.Seen)
	}
	o := imagetest.Fast.WithDefaults()
	var requested []string
	inner := o.Net.Base
	o.Net.Base = imagetest.RoundTrip(func(r *http.Request) (*http.Response, error) {
		requested = append(requested, r.URL.Hostname())
		if strings.HasSuffix(r.URL.Hostname(), "docker.io") || strings.HasSuffix(r.URL.Hostname(), ".example") {
			return &http.Response{StatusCode: http.StatusTeapot, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
		}
		return inner.RoundTrip(r)
	})
	_, err := sources.Open(context.Background(), "docker://tiny:2", o)
	imagetest.WantErr(t, err, nil, "index.docker.io", "418")
	if len(requested) < 2 || requested[0] != "127.0.0.1" || requested[len(requested)-1] != "index.docker.io" {
		t.Errorf("asked %q", requested)
	}
	requested = nil
	_, err = sources.Open(context.Background(), "docker://reg.example/tiny:1", o)
	imagetest.WantErr(t, err, nil, "reg.example", "418")
	for _, host := range requested {
		if host != "reg.example" {
			t.Errorf("asked %q", requested)
		}
	}
}
