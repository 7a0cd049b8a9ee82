package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// part is one answer to a request for content: the bytes from one position to another, then an error or the end.
type part struct {
	status   int // 206 or 200 where 0, as the request has a range or not
	from, to int
	length   int    // Content-Length: to-from where 0, none where -1
	says     string // Content-Range, instead of the true one
	then     error
}

// counted counts bodies that are open.
type counted struct {
	io.Reader
	open *int
}

func (c *counted) Close() error {
	if c.open != nil {
		*c.open--
		c.open = nil
	}
	return nil
}

// each runs a test two times: the end of an answer comes behind its last bytes, or together with them.
func each(t *testing.T, name string, test func(t *testing.T, together bool)) {
	t.Run(name, func(t *testing.T) { test(t, false) })
	t.Run(name+", at once", func(t *testing.T) { test(t, true) })
}

// The requests for one content: each answer that breaks off costs another for the rest, as long as that helps.
func TestRequestsOfADownload(t *testing.T) {
	const mib = 1 << 20
	broken := io.ErrUnexpectedEOF
	steps := func(size, n, end int) (all []part) {
		for i := range n {
			all = append(all, part{from: i * size, to: (i + 1) * size, length: end - i*size, then: broken})
		}
		return append(all, part{from: n * size, to: end})
	}
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	const nothing = -2
	for _, c := range []struct {
		name     string
		size     int64 // of the descriptor: nothing is 0, and 0 the size of the content
		content  int   // bytes
		manifest bool
		answers  []part
		want     string // ranges of the requests, or those of the last
		fails    string
		hint     string
	}{
		{name: "whole", content: 10, answers: []part{{to: 10}}, want: "-"},
		{name: "of a length that only its answer has", size: -1, content: 10, answers: []part{{to: 10}}, want: "-"},
		{name: "of no known length", size: -1, content: 10, answers: []part{{to: 10, length: -1}}, want: "-"},
		{name: "a manifest", content: 10, manifest: true, answers: []part{{to: 10}}, want: "-"},
		{name: "more than its size", size: 9, content: 10, answers: []part{{to: 10, length: -1}}, want: "-", fails: "more than 9 bytes"},
		{name: "another size", size: 9, content: 10, answers: []part{{to: 10}}, want: "-", fails: "got 10 bytes, want 9"},
		{name: "empty", answers: []part{{}}, want: "-"},
		{name: "empty instead", content: 10, answers: []part{{}}, want: "-", fails: "got 0 bytes, want 10"},
		{name: "another size than none", size: nothing, content: 10, answers: []part{{to: 10}}, want: "-", fails: "got 10 bytes, want 0"},
		{name: "more than no bytes", size: nothing, content: 10, answers: []part{{to: 10, length: -1}}, want: "-", fails: "more than 0 bytes"},
		{name: "breaks off after a byte", content: 10, answers: []part{{to: 1, length: 10, then: broken}, {from: 1, to: 10}}, want: "- 1"},
		{name: "breaks off after a byte, no such range", content: 10, answers: []part{{to: 1, length: 10, then: broken}, {status: 416}, {status: 200, to: 10}}, want: "- 1 -"},
		{name: "breaks off with progress, then with little", content: 2 * mib,
			answers: []part{{to: mib, length: 2 * mib, then: broken}, {from: mib, to: mib + 10, length: mib, then: broken}, {from: mib + 10, to: 2 * mib}}, want: "- 1048576 1048586"},
		{name: "ends too early", content: 10, answers: []part{{to: 4, length: -1}, {from: 4, to: 10}}, want: "- 4"},
		{name: "breaks off", content: 10, answers: []part{{to: 4, length: 10, then: broken}, {from: 4, to: 10}}, want: "- 4"},
		{name: "breaks off at once", content: 10, answers: []part{{to: 0, length: 10, then: broken}, {to: 10}}, want: "- -"},
		{name: "breaks off, no ranges", content: 10, answers: []part{{to: 4, length: 10, then: broken}, {status: 200, to: 10}}, want: "- 4"},
		{name: "breaks off, no ranges and a shorter one", content: 10, answers: []part{{to: 4, length: 10, then: broken}, {status: 200, to: 3, length: -1}, {from: 4, to: 10}}, want: "- 4 4"},
		{name: "breaks off, no such range", content: 10, answers: []part{{to: 4, length: 10, then: broken}, {status: 416}, {status: 200, to: 10}}, want: "- 4 -"},
		{name: "no such range of all", content: 10, answers: []part{{status: 416}}, want: "-", fails: "416"},
		{name: "breaks off, a range from elsewhere", content: 10, answers: []part{{to: 4, length: 10, then: broken}, {from: 4, to: 10, says: "bytes 3-9/10"}},
			want: "- 4", fails: `got the range "bytes 3-9/10", want bytes 4-9/10`},
		{name: "breaks off, a range of another content", content: 10, answers: []part{{to: 4, length: 10, then: broken}, {from: 4, to: 10, says: "bytes 4-9/11"}},
			want: "- 4", fails: `got the range "bytes 4-9/11", want bytes 4-9/10`},
		{name: "an error that stays", content: 10, answers: []part{{to: 4, length: 10, then: errFault}}, want: "-", fails: errFault.Error()},
		{name: "resets every connection", content: 10, answers: []part{{to: 4, length: 10, then: broken}, {then: reset}}, want: "4", fails: "connection reset"},
		{name: "breaks off with progress", content: 5 * mib, answers: steps(mib, 4, 5*mib), want: "- 1048576 2097152 3145728 4194304"},
		{name: "breaks off with too little progress", content: 5 * mib, answers: steps(mib-1, 4, 5*mib), want: "- 1048575 2097150", fails: "the connection broke"},
		{name: "breaks off with little progress", content: 5 * mib, answers: steps(mib*2/5, 4, 5*mib), want: "- 419430 838860", fails: "the connection broke"},
		{name: "gone", content: 10, answers: []part{{status: 404}}, want: "-", fails: "the registry does not have it", hint: "push it again"},
		{name: "a manifest is gone", content: 10, manifest: true, answers: []part{{status: 404}}, want: "-", fails: "404"},
	} {
		each(t, c.name, func(t *testing.T, together bool) {
			content := bytes.Repeat([]byte("0123456789"), c.content/10+1)[:c.content]
			h, size, err := v1.SHA256(bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			d := v1.Descriptor{Digest: h, Size: size, MediaType: types.OCILayer}
			switch c.size {
			case 0:
			case nothing:
				d.Size = 0
			default:
				d.Size = c.size
			}
			if c.manifest {
				d.MediaType = types.OCIManifestSchema1
			}
			var seen []string
			open := 0
			network := registry.NewNetwork(registry.Options{Stall: time.Hour, Retry: registry.RetryPolicy{Tries: 3, First: 1}})
			network.Answer(imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
				resp := &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody, Request: req}
				if req.URL.Path == "/v2/" {
					return resp, nil
				}
				if kind := map[bool]string{true: "manifests", false: "blobs"}[c.manifest]; req.URL.Path != "/v2/repo/"+kind+"/"+h.String() {
					t.Errorf("requests %s", req.URL)
				}
				if accept := req.Header.Get("Accept"); (accept == string(d.MediaType)) != c.manifest || req.Header.Get("Accept-Encoding") != "identity" {
					t.Errorf("accepts %q, %q", accept, req.Header.Get("Accept-Encoding"))
				}
				a := c.answers[min(len(seen), len(c.answers)-1)]
				seen = append(seen, strings.TrimSuffix(strings.TrimPrefix(req.Header.Get("Range"), "bytes="), "-"))
				if seen[len(seen)-1] == "" {
					seen[len(seen)-1] = "-"
				}
				if a.then == error(reset) {
					return nil, a.then
				}
				if resp.StatusCode = a.status; a.status == 0 {
					resp.StatusCode = 200
					if a.from > 0 {
						resp.StatusCode = 206
						resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a.from, size-1, size))
						if a.says != "" {
							resp.Header.Set("Content-Range", a.says)
						}
					}
				}
				if resp.ContentLength = int64(a.length); a.length == 0 {
					resp.ContentLength = int64(a.to - a.from)
				}
				var body io.Reader = bytes.NewReader(content[a.from:a.to])
				if a.then != nil {
					body = io.MultiReader(body, failing{a.then})
				}
				if together {
					body = iotest.DataErrReader(body)
				}
				open++
				resp.Body = &counted{body, &open}
				return resp, nil
			}))
			repo := imagetest.Must[name.Repository](t)(name.NewRepository("localhost:5000/repo"))
			rc, got, err := registry.Remote{Ctx: context.Background(), Net: network, Repo: repo, Origin: repo}.Open(d)
			var all []byte
			if err == nil {
				if _, known := network.Home(repo, h); !known || got < 0 && c.answers[0].length >= 0 {
					t.Errorf("opened: the blob is known: %v, size %d", known, got)
				}
				all, err = io.ReadAll(rc)
				rc.Close()
			}
			if requests := strings.Join(seen, " "); requests != c.want && !(c.name == "resets every connection" && strings.HasPrefix(requests, "- 4 4")) {
				t.Errorf("got the requests %q, want %q", requests, c.want)
			}
			if c.fails != "" {
				imagetest.WantErr(t, err, nil, c.fails)
				if hint := hinterr.HintOf(err); !strings.Contains(hint, c.hint) || c.hint == "" && strings.Contains(hint, "push it again") {
					t.Errorf("hint %q, want %q", hint, c.hint)
				}
			} else if err != nil || !bytes.Equal(all, content) {
				t.Errorf("got %d bytes, %v, want %d", len(all), err, len(content))
			}
			if open != 0 {
				t.Errorf("%d answers are not closed", open)
			}
		})
	}
}

// A download whose command has ended is not resumed.
func TestDownloadEnded(t *testing.T) {
	ctx, end := context.WithCancelCause(context.Background())
	requests := 0
	network := registry.NewNetwork(registry.Options{Stall: time.Hour, Retry: registry.RetryPolicy{Tries: 3, First: 1}})
	network.Answer(imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: 200, ProtoMajor: 1, Header: http.Header{}, Body: http.NoBody, Request: req, ContentLength: 10}
		if req.URL.Path != "/v2/" {
			requests++
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("01"), failing{io.ErrUnexpectedEOF}))
		}
		return resp, nil
	}))
	repo := imagetest.Must[name.Repository](t)(name.NewRepository("localhost:5000/repo"))
	rc, _, err := registry.Remote{Ctx: ctx, Net: network, Repo: repo, Origin: repo}.Open(v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}, Size: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	end(errors.New("ended by hand"))
	if b, err := io.ReadAll(rc); err == nil || string(b) != "01" || requests != 1 {
		t.Errorf("got %q, %v, %d requests", b, err, requests)
	}
}
