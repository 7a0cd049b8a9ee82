package media_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// Each error of a registry is described, with a hint, and without a URL.
func TestRegistryErrors(t *testing.T) {
	status := func(code int, messages ...string) error {
		e := &transport.Error{StatusCode: code}
		for _, m := range messages {
			e.Errors = append(e.Errors, transport.Diagnostic{Code: "X", Message: m})
		}
		return e
	}
	at := func(err error) error { return &url.Error{Op: "Get", URL: "https://h/secret", Err: err} }
	unknown := &transport.Error{StatusCode: 404, Errors: []transport.Diagnostic{{Code: transport.ManifestBlobUnknownErrorCode, Message: "unknown"}}}
	// Over plain HTTP after TLS: the error of TLS is the cause.
	plain := func(code int, scheme string) error {
		return &transport.Error{StatusCode: code, Request: &http.Request{URL: &url.URL{Scheme: scheme}}}
	}
	const wrong, log = "sent a wrong answer: try again", "try again; see the registry's log for details"
	for _, c := range []struct {
		err        error
		kind       error
		says, hint string // the whole texts, if they begin with "="
	}{
		{status(404), hinterr.ErrNotFound, "=registry h.example: repository a/b, tag 1: no such image (404 Not Found)", "="},
		{at(status(404, "one", "", "two")), hinterr.ErrNotFound, "no such image (404 Not Found: one: two)", "="},
		{status(401), hinterr.ErrUnauthorized, "no access, or no such repository (401 Unauthorized)", "=docker login h.example"},
		{status(403), hinterr.ErrUnauthorized, "(403 Forbidden)", "=docker login h.example"},
		{status(429), nil, "too many requests (429 ", "=wait, or log in for a higher limit: docker login h.example"},
		{status(500), nil, "=registry h.example: repository a/b, tag 1: the registry answers 500 Internal Server Error", "=" + log},
		{status(500, strings.Repeat("x", 600)), nil, "Error: " + strings.Repeat("x", 500-len("500 Internal Server Error: ")) + "…", log},
		{status(500, strings.Repeat("x", 500-len("500 Internal Server Error: "))), nil, "xx", log},
		{status(500, strings.Repeat("x", 499-len("500 Internal Server Error: "))+"é"), nil, "xx…", log},
		{unknown, nil, "the registry accepted all blobs, but does not have them (404 Not Found: unknown)", "=" + log},
		{hinterr.With(status(500), "its own"), nil, "answers 500", "=its own"},
		{&registry.Part{Name: "layer x", Err: &registry.Part{Name: "blob y", Err: status(404)}}, hinterr.ErrNotFound, "tag 1, layer x, blob y: no such image", "="},
		{at(&net.DNSError{Name: "h.example"}), nil, "=registry h.example: repository a/b, tag 1: no such host h.example", "=check the spelling and this machine's DNS; write ./NAME for a file or directory"},
		{at(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), syscall.ECONNREFUSED, "=registry h.example: repository a/b, tag 1: no answer: connection refused", "="},
		{at(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), syscall.ECONNRESET, "=registry h.example: repository a/b, tag 1: read: connection reset by peer", wrong},
		{at(&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}), nil, "=registry h.example: repository a/b, tag 1: tls: bad certificate", "certs.d/h.example: an authority as ca.crt"},
		{at(&tls.CertificateVerificationError{Err: errors.New("expired")}), nil, "expired", "certs.d/h.example: an authority as ca.crt"},
		{at(io.EOF), io.ErrUnexpectedEOF, "=registry h.example: repository a/b, tag 1: the connection broke: unexpected EOF", "="},
		{io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, "the connection broke", "="},
		{at(http.ErrSchemeMismatch), nil, "server gave HTTP response", "=a registry without TLS needs --insecure"},
		{at(errors.New("odd")), nil, "=registry h.example: repository a/b, tag 1: odd", wrong},
		{hinterr.Errorf(hinterr.ErrUnsupported, "no"), hinterr.ErrUnsupported, "tag 1: no", "="}, {hinterr.Errorf(hinterr.ErrPlatform, "no"), hinterr.ErrPlatform, "tag 1: no", "="},
		{hinterr.Errorf(hinterr.ErrNotFound, "no"), hinterr.ErrNotFound, "tag 1: no", "="}, {hinterr.Errorf(hinterr.ErrTooLarge, "no"), hinterr.ErrTooLarge, "tag 1: no", "="},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, os.ErrPermission, "open x", "="}, {syscall.ENOSPC, syscall.ENOSPC, "no space", "="},
		{hinterr.Damaged("no"), hinterr.ErrDamaged, "tag 1: no", wrong}, {hinterr.With(errors.New("no"), "its own"), nil, "tag 1: no", "=its own"},
		{errors.Join(at(errors.New("x509")), plain(400, "http")), nil, "x509", wrong}, {errors.Join(at(errors.New("x509")), plain(404, "http")), hinterr.ErrNotFound, "no such image", "="},
		{errors.Join(at(errors.New("x509")), plain(400, "https")), nil, "the registry answers 400", log}, {errors.Join(at(http.ErrSchemeMismatch), plain(400, "http")), nil, "answers 400", log},
		{errors.Join(errors.New("x509"), plain(400, "http")), nil, "answers 400", log},
	} {
		err := media.RegistryError(t.Context(), name.MustParseReference("h.example/a/b:1"), c.err)
		imagetest.WantErr(t, err, c.kind)
		for what, text := range map[string][2]string{"text": {err.Error(), c.says}, "hint": {hinterr.HintOf(err), c.hint}} {
			if whole, is := strings.CutPrefix(text[1], "="); is && text[0] != whole || !is && !strings.Contains(text[0], text[1]) {
				t.Errorf("%v: got the %s %q, want %q", c.err, what, text[0], text[1])
			}
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("a URL in %v", err)
		}
		if strings.HasSuffix(c.says, "xx") && strings.Contains(err.Error(), "…") {
			t.Errorf("cut off: %v", err)
		}
	}
	digest := "sha256:" + strings.Repeat("a", 64)
	imagetest.WantErr(t, media.RegistryError(t.Context(), imagetest.Must[name.Reference](t)(name.ParseReference("h.example/a@"+digest)), io.EOF), nil, "repository a, digest "+digest)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if err := media.RegistryError(ctx, name.MustParseReference("h.example/a"), io.EOF); err != stop {
		t.Errorf("cancelled: got %v", err)
	}
}

// A name that is probably not one of an image is an error with a hint; other names are not.
func TestMistyped(t *testing.T) {
	t.Chdir(t.TempDir())
	imagetest.Write(t, "redis", nil)
	imagetest.Write(t, "x.tar", nil)
	for n, hint := range map[string]string{
		"redis:1": "", "app": "", "app:1": "", "a/b:1": "", "h.example/x.tar": "", "h:5000/x.tar": "", "localhost/x.tar": "", "a.b:1": "", "app:1.2": "", "app:x.tar": "", "a@sha256:" + strings.Repeat("a", 64): "",
		"a.b@sha256:" + strings.Repeat("a", 64): "", "docker:27": "", "registry:2": "",
		"a.b": "docker://a.b", "a/b.c": "docker://a/b.c", "app.tar:1": "docker://app.tar:1", "app.TAR": "did you mean app.tar?", "app.json": "docker://app.json", "x.tar:1": "docker-archive:x.tar:1, or oci-archive: or oci:", "redis:1:2": "docker-archive:redis:1:2, or",
		"App": "did you mean app?", "A/b:1": "did you mean a/b:1?", "a b": "check the spelling: an image is NAME", "oci=x": "did you mean oci:x?", "oci;x": "did you mean oci:x?", "oci,x": "did you mean oci:x?", "OCI:x": "did you mean oci:x?",
		"zzzzzz://x": "", "oc.i:x": "", "a/oci:1": "",
		"dokcer:x": "", "dokcer://x": "did you mean docker://x?", "docker;//x": "did you mean docker://x?",
	} {
		err := media.Mistyped(n)
		if hint == "" {
			if err != nil {
				t.Errorf("%s: got %v", n, err)
			}
			continue
		}
		if err == nil || !errors.Is(err, hinterr.ErrNotFound) || !strings.Contains(hinterr.HintOf(err), hint) || !strings.HasPrefix(err.Error(), n+": ") {
			t.Errorf("%s: got %v, hint %q, want %q", n, err, hinterr.HintOf(err), hint)
		}
	}
	for path, hint := range map[string]string{"./none": "", "redi": "did you mean redis?", "./redi": "did you mean ./redis?", "none/redis": "docker://none/redis"} {
		if err := media.NoFile(path); err.Error() != path+": no such file or directory" || hint == "" && hinterr.HintOf(err) != "" || !strings.Contains(hinterr.HintOf(err), hint) {
			t.Errorf("%s: got %v, hint %q, want %q", path, err, hinterr.HintOf(err), hint)
		}
	}
}

// A DEST without a prefix is a layout that exists, or an image of the engine; a file needs a prefix.
func TestResolveDest(t *testing.T) {
	imagetest.NoDaemon(t)
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("lay", 0o755); err != nil {
		t.Fatal(err)
	}
	imagetest.Write(t, "lay/oci-layout", nil)
	imagetest.Write(t, "file", nil)
	for in, want := range map[string]string{
		"lay": "oci:lay", "redis:1": "docker-daemon:redis:1", "dir:x": "dir:x", "docker://a": "docker://a", "file": "", "./x": "", "x.tar": "", "/none/x": "", "x.tar:1": "docker-daemon:x.tar:1",
	} {
		got, err := media.ResolveDest(imagetest.Must[media.Ref](t)(media.ParseRef(in)))
		if want != "" && (err != nil || got.String() != want) {
			t.Errorf("%s: got %v, %v, want %s", in, got, err, want)
		}
		if hint := fmt.Sprintf("-o oci-archive:%[1]s, or -o docker-archive:%[1]s for docker load", in); want == "" && (!errors.Is(err, hinterr.ErrUnsupported) || hinterr.HintOf(err) != hint) {
			t.Errorf("%s: got %v, hint %q", in, err, hinterr.HintOf(err))
		}
	}
}
