// The limits of a registry: where to it may send vfix, how often, and how much it may answer.
// go-containerregistry's own clients do not bound these.

package registry

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

const misconfigured = "this is an error of the registry or of a proxy in front of it: report it to its operator"

// errPlainHTTP: go-containerregistry tries plain HTTP with every private address.
var errPlainHTTP = errors.New("plain HTTP, which anybody on the way can read and change, and nobody allowed it")

// guard refuses plain HTTP but to this machine, and answers that are too long.
type guard struct {
	Next     http.RoundTripper
	Insecure bool
}

func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !g.Insecure && !isLoopback(req.URL.Hostname()) {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, errPlainHTTP
	}
	resp, err := g.Next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if put, ok := req.Context().Value(putKey{}).(*putAnswer); ok {
		put.note(req, resp)
	}
	if most := longest(asked(req), resp.StatusCode); most > 0 {
		resp.Body = &bounded{resp.Body, most, most}
	}
	return resp, nil
}

// asked is the path that a registry was asked for first, before its redirects.
func asked(req *http.Request) string { return append(before(req), req)[0].URL.Path }

// How long an answer may be, in bytes.
const (
	maxErrorAnswer = 60 << 10 // go-containerregistry does not read more than 64 KiB
	// maxList is one page of a list: a registry that knows no pages has all tags in it.
	maxList = 64 << 20
)

// longest gives the length in bytes of the longest answer to a request for a path, 0 for that of a blob,
// whose length its manifest says.
func longest(path string, status int) int64 {
	switch {
	case status >= http.StatusMultipleChoices:
		return maxErrorAnswer
	case strings.HasSuffix(path, "/tags/list"), strings.HasSuffix(path, "/_catalog"):
		return maxList
	case strings.Contains(path, "/blobs/"):
		return 0
	}
	return blob.MaxManifest
}

// bounded is an answer that becomes an error when it is too long.
type bounded struct {
	io.ReadCloser
	left, most int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	if b.left >= 0 {
		return n, err
	}
	if b.most == maxErrorAnswer { // what it says first is enough
		return n - 1, io.EOF
	}
	b.Close() // go-containerregistry does not always
	return n - 1, hinterr.With(hinterr.Damaged("the registry's answer: more than %d bytes", b.most), misconfigured)
}
