package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/tests/imagetest"
)

// The requests that bring a blob into a repository, and no more of them.
func TestRequestsOfAnUpload(t *testing.T) {
	repo := func(text string) name.Repository {
		return imagetest.Must[name.Repository](t)(name.NewRepository(text, name.WithDefaultRegistry("")))
	}
	here, other, third, elsewhere := repo("localhost:5000/here"), repo("localhost:5000/other"), repo("localhost:5000/third"), repo("away.example/other")
	at := func(r name.Repository) blob.Blobs { return registry.Remote{Repo: r, Origin: r} }
	const small, large = registry.SmallBlob, registry.SmallBlob + 1
	const sent = "POST PATCH PUT"
	const nowhere = -202 // 202 without an address
	hangUp := errors.New("hangs up")
	for _, c := range []struct {
		name    string
		size    int
		kind    string // of the digest, other than sha256
		layer   bool
		home    *name.Repository // that is known to have the blob
		from    blob.Blobs
		retry   bool
		answers map[string]int // instead of success; 404 for HEAD, 0 for a broken connection
		want    string         // requests
		fails   string
	}{
		{name: "known here", size: large, home: &here, want: ""},
		{name: "small", size: small, want: "POST PUT"},
		{name: "not small", size: large, want: "HEAD " + sent},
		{name: "empty", size: 0, want: "HEAD " + sent},
		{name: "a small layer", size: small, layer: true, want: "HEAD POST PUT"},
		{name: "small, after a refused manifest", size: small, retry: true, want: "HEAD POST PUT"},
		{name: "there", size: large, answers: map[string]int{"HEAD": 200}, want: "HEAD"},
		{name: "the question is refused", size: large, answers: map[string]int{"HEAD": 403}, want: "HEAD", fails: "403 Forbidden"},
		{name: "the question is not answered", size: large, answers: map[string]int{"HEAD": 0}, want: "HEAD", fails: "hangs up"},
		{name: "known in another repository", size: large, home: &other, answers: map[string]int{"MOUNT": 201}, want: "MOUNT"},
		{name: "known in another repository than it is from", size: large, home: &other, from: at(third), answers: map[string]int{"MOUNT": 201}, want: "MOUNT"},
		{name: "from another repository", size: large, from: at(other), answers: map[string]int{"MOUNT": 201}, want: "MOUNT"},
		{name: "from here", size: large, from: at(here), answers: map[string]int{"MOUNT": 201}, want: "MOUNT"},
		{name: "from another registry", size: large, from: at(elsewhere), want: "HEAD " + sent},
		{name: "from another repository, after a refused manifest", size: large, from: at(other), retry: true, want: "HEAD " + sent},
		{name: "the mount begins an upload", size: large, home: &other, want: "MOUNT HEAD PATCH PUT"},
		{name: "the mount begins an upload of a small blob", size: small, home: &other, want: "MOUNT PUT"},
		{name: "the mount begins an upload nowhere", size: large, home: &other, answers: map[string]int{"MOUNT": nowhere}, want: "MOUNT", fails: "gives no URL for the upload"},
		{name: "an upload continues nowhere", size: large, answers: map[string]int{"PATCH": nowhere}, want: "HEAD POST PATCH", fails: "gives no URL for the upload"},
		{name: "a digest of an unknown kind", size: large, kind: "md5", want: "HEAD POST", fails: "unsupported hash"},
		{name: "an upload begins nowhere", size: large, answers: map[string]int{"POST": nowhere}, want: "HEAD POST", fails: "gives no URL for the upload"},
		{name: "the mount has another answer", size: large, home: &other, answers: map[string]int{"MOUNT": 299}, want: "MOUNT HEAD " + sent},
		{name: "the mount is refused", size: large, home: &other, answers: map[string]int{"MOUNT": 400}, want: "MOUNT HEAD " + sent},
		{name: "the mount is not answered", size: large, home: &other, answers: map[string]int{"MOUNT": 0}, want: "MOUNT", fails: "hangs up"},
		{name: "no login for both repositories", size: large, home: &other, answers: map[string]int{"LOGIN both": 403}, want: "HEAD " + sent},
		{name: "no login", size: large, answers: map[string]int{"LOGIN": 403}, want: "", fails: "403 Forbidden"},
		{name: "ended before a mount", size: large, home: &other, answers: map[string]int{"LOGIN both": -1}, want: "", fails: "ended by hand"},
		{name: "an upload without an address", size: small, answers: map[string]int{"POST": 299}, want: "POST HEAD", fails: "unexpected status code 299"},
		{name: "sent before an error", size: small, answers: map[string]int{"PUT": 409, "HEAD": 200}, want: "POST PUT HEAD"},
		{name: "an error", size: small, answers: map[string]int{"PUT": 409}, want: "POST PUT HEAD", fails: "409 Conflict"},
		{name: "an error of a layer that is not small", size: large, answers: map[string]int{"PUT": 409}, want: "HEAD " + sent, fails: "409 Conflict"},
		{name: "the start is not answered", size: large, answers: map[string]int{"POST": 0}, want: "HEAD POST", fails: "hangs up"},
		{name: "the end is not answered", size: large, answers: map[string]int{"PUT": 0}, want: "HEAD " + sent, fails: "hangs up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(context.Background())
			defer end(nil)
			var seen []string
			open, body := 0, map[string][]byte{}
			network := registry.NewNetwork(registry.Options{Stall: registry.DefaultStall, Retry: registry.RetryPolicy{Tries: 1}})
			network.Answer(imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
				what, status := req.Method, map[string]int{"HEAD": 404, "POST": 202, "MOUNT": 202, "PATCH": 202, "PUT": 201}
				resp := &http.Response{ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody, Request: req}
				switch {
				case req.URL.Path == "/v2/":
					resp.StatusCode = 401
					resp.Header.Set("WWW-Authenticate", `Bearer realm="http://localhost:5000/token"`)
					return resp, nil
				case req.URL.Path == "/token":
					if what = "LOGIN"; len(req.URL.Query()["scope"]) > 1 {
						what = "LOGIN both"
					}
					resp.Body = io.NopCloser(strings.NewReader(`{"token":"t"}`))
					status[what] = 200
				case req.URL.Query().Get("mount") != "":
					if what = "MOUNT"; req.URL.Query().Get("from") != "other" && c.from != at(here) {
						t.Errorf("mounts from %q", req.URL.Query().Get("from"))
					}
				}
				if !strings.HasPrefix(what, "LOGIN") {
					seen = append(seen, what)
				}
				if req.Body != nil {
					body[what], _ = io.ReadAll(req.Body)
				}
				resp.StatusCode = status[what]
				if s, ok := c.answers[what]; ok {
					resp.StatusCode = s
				}
				resp.Status = http.StatusText(resp.StatusCode)
				switch resp.StatusCode {
				case -1:
					end(errors.New("ended by hand"))
					return nil, ctx.Err()
				case 0:
					return nil, hangUp
				case nowhere:
					resp.StatusCode = 202
				case 202:
					resp.Header.Set("Location", "/v2/here/blobs/uploads/1")
				}
				open++
				resp.Body = &counted{resp.Body, &open}
				return resp, nil
			}))
			content := bytes.Repeat([]byte("x"), c.size)
			h, size, err := v1.SHA256(bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			if c.kind != "" {
				h.Algorithm = c.kind
			}
			b := blob.BlobToWrite{Digest: h, Size: size, From: c.from, Open: func() (io.ReadCloser, error) {
				open++
				return &counted{bytes.NewReader(content), &open}, nil
			}}
			if c.layer {
				b.Layer = "layer"
			}
			if c.home != nil {
				network.Learn(*c.home, h)
			}
			shown := &shownProgress{}
			u := registry.NewUploads(network, here.Tag("1"), shown)
			err = u.Blob(ctx, b, c.retry)
			u.Task.Done()
			if got := strings.Join(seen, " "); got != c.want {
				t.Errorf("got the requests %q, want %q", got, c.want)
			}
			if open != 0 {
				t.Errorf("%d answers or contents are not closed", open)
			}
			if c.fails != "" {
				imagetest.WantErr(t, err, nil, "blob "+blob.ShortHash(h), c.fails)
			} else if err != nil {
				t.Error(err)
			} else if shown.sum.Load() != size {
				t.Errorf("progress %d of %d", shown.sum.Load(), size)
			}
			if at, known := network.Home(here, h); err == nil && (!known || at != here) {
				t.Errorf("the blob is known in %v, %v", at, known)
			}
			if all := append(body["PATCH"], body["PUT"]...); strings.HasSuffix(c.want, "PUT") && !bytes.Equal(all, content) {
				t.Errorf("sent %d bytes, want %d", len(all), len(content))
			}
		})
	}
}

// The size of what a registry has of an upload, 0 for what is not one.
func TestUploaded(t *testing.T) {
	for text, want := range map[string]int64{
		"0-0": 0, "0-1": 2, "0-9": 10, "bytes=0-9": 10, "0-4611686018427387903": 1 << 62,
		"": 0, "9": 0, "0-": 0, "1-9": 0, "0--9": 0, "0-9/10": 0, "0-9223372036854775807": 0, "0-9223372036854775808": 0,
	} {
		if got := registry.Uploaded(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
}
