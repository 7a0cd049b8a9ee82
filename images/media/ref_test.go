package media_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func TestParseRef(t *testing.T) {
	for _, c := range []struct {
		in   string
		want media.Ref
	}{
		{"redis", media.Ref{Transport: media.Plain, Name: "redis", Guessed: true}},
		{"redis:2.8.22", media.Ref{Transport: media.Plain, Name: "redis:2.8.22", Guessed: true}},
		{"docker:27-cli", media.Ref{Transport: media.Plain, Name: "docker:27-cli", Guessed: true}},
		{"localhost:5000/a/b:c", media.Ref{Transport: media.Plain, Name: "localhost:5000/a/b:c", Guessed: true}},
		{`C:\images\a.tar`, media.Ref{Transport: media.Plain, Name: `C:\images\a.tar`, Guessed: true}},
		{"c:/images/a.tar", media.Ref{Transport: media.Plain, Name: "c:/images/a.tar", Guessed: true}},
		{"docker-daemon:redis:2.8", media.Ref{Transport: media.Daemon, Name: "redis:2.8"}},
		{"docker://redis@sha256:ab", media.Ref{Transport: media.Registry, Name: "redis@sha256:ab"}},
		{"docker-archive:a.tar", media.Ref{Transport: media.DockerArchive, Name: "a.tar"}},
		{"docker-archive:a.tar:h:5000/redis:2", media.Ref{Transport: media.DockerArchive, Name: "a.tar", Tag: "h:5000/redis:2"}},
		{`docker-archive:C:\a.tar:redis:2`, media.Ref{Transport: media.DockerArchive, Name: `C:\a.tar`, Tag: "redis:2"}},
		{"oci:/x/dir:v1", media.Ref{Transport: media.OCILayout, Name: "/x/dir", Tag: "v1"}},
		{`oci:d:\x`, media.Ref{Transport: media.OCILayout, Name: `d:\x`}},
		{"oci-archive:x.tar", media.Ref{Transport: media.OCIArchive, Name: "x.tar"}},
		{"-", media.Ref{Transport: media.Plain, Name: "-", Guessed: true}},
		{"docker-archive:-:redis:2", media.Ref{Transport: media.DockerArchive, Name: "-", Tag: "redis:2"}},
		{"podman:redis:2.8", media.Ref{Transport: media.Daemon, Name: "redis:2.8", Podman: true}},
		{"dir:/srv/root:1", media.Ref{Transport: media.Dir, Name: "/srv/root:1"}},
	} {
		got, err := media.ParseRef(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseRef(%q): got %+v, %v, want %+v", c.in, got, err, c.want)
		}
		if !c.want.Guessed && got.String() != c.in {
			t.Errorf("ParseRef(%q).String(): got %q", c.in, got.String())
		}
	}
}

// Other tools' prefixes are vfix's own by another name.
func TestAliases(t *testing.T) {
	for in, want := range map[string]string{
		"oci-dir:x:1": "oci:x:1", "oci-layout://x": "oci:x", "oci-dir:///srv/x": "oci:/srv/x", "singularity:a.sif": "sif:a.sif",
		"podman://redis": "podman:redis", "docker-daemon://redis:1": "docker-daemon:redis:1",
	} {
		got, err := media.ParseRef(in)
		if err != nil || got.String() != want {
			t.Errorf("%s: got %v, %v, want %s", in, got, err, want)
		}
	}
}

// A store that vfix does not read has a command that exports an image from it.
func TestExports(t *testing.T) {
	for in, want := range map[string]string{
		"containerd:redis:2.8":       "ctr -n k8s.io images export --platform linux/amd64 - docker.io/library/redis:2.8 | vfix scan -",
		"containerd://ghcr.io/a/b":   "ctr -n k8s.io images export --platform linux/amd64 - ghcr.io/a/b:latest",
		"nerdctl:redis":              "nerdctl save redis | vfix scan -",
		"containers-storage:redis:1": "podman save redis:1 | vfix scan -",
		"ostree:redis":               "skopeo copy ostree:redis oci-archive:image.tar",
		"podmann://redis":            "did you mean podman:redis?",
		"https://example.test/a":     "docker://example.test/a",
	} {
		_, err := media.ParseRef(in)
		imagetest.WantErr(t, err, hinterr.ErrUnsupported)
		if got := hinterr.HintOf(err); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", in, got, want)
		}
	}
}

// A result gets into such a store by a file, and the command that loads it.
func TestLoadHints(t *testing.T) {
	for in, want := range map[string][2]string{
		"containerd:redis:1": {"containerd:redis:1: vfix does not read or write the store of containerd", "'ctr -n k8s.io images import"},
		"nerdctl:redis":      {"nerdctl:redis: vfix does not", "'nerdctl load -i image.tar'"}, "crio:a b": {"crio:a b: vfix does not", "write a file: -o oci-archive:image.tar, then '"},
		"ostree:a b": {"ostree:a b: vfix does not", "then 'skopeo copy oci-archive:image.tar ostree:'a b''"},
	} {
		_, err := media.ParseRef(in)
		store, ok := errors.AsType[*media.StoreError](err)
		if !ok || !strings.HasPrefix(err.Error(), want[0]) || !strings.Contains(store.LoadHint(), want[1]) {
			t.Errorf("%s: got %v, hint %s, want %q", in, err, store.LoadHint(), want)
		}
	}
}

// The base name, the daemon and the manifests of refs, and names that can only be paths.
func TestRefFacts(t *testing.T) {
	for _, c := range []struct {
		in          string
		base, where string
		manifests   bool
	}{
		{"docker://redis:1", "redis:1", "", true}, {"docker-daemon:redis:1", "redis:1", "", false}, {"podman:redis:1", "redis:1", "podman", false},
		{"docker-archive:/x/a.tar:redis:1", "redis:1", "", false}, {"docker-archive:/x/a.tar", "a.tar", "", false}, {"oci:/x/lay", "lay", "", true}, {"oci-archive:/x/a.tar:1", "1", "", true},
	} {
		r, err := media.ParseRef(c.in)
		if err != nil || media.BaseName(r) != c.base || r.Where() != c.where || r.HasManifests() != c.manifests {
			t.Errorf("%s: got %v, base %q, where %q, manifests %v", c.in, err, media.BaseName(r), r.Where(), r.HasManifests())
		}
		if r.Host = "unix:///x"; r.Where() != r.Host {
			t.Errorf("%s at an address: got %q", c.in, r.Where())
		}
	}
	for path, want := range map[string]bool{"/a": true, "./a": true, "..": true, "~/a": true, `a\b`: true, `c:\a`: true, "C:/a": true, "z:/a": true, "a:/x": true, "A:/x": true, "{:/a": false, "@:/a": false, "1:/a": false, "c:a": false, "c:/": true, "[:/a": false, "a": false, "a/b": false, "ab/c:d": false} {
		if got := media.LooksLikePath(path); got != want {
			t.Errorf("%s looks like a path: got %v", path, got)
		}
	}
	for n, pair := range [][2]string{{"redis", "docker.io/library/redis:latest"}, {"a:1", "index.docker.io/library/a:1"}, {"UPPER", "UPPER"}, {"UPPER", "Upper"}, {"a", "UPPER"}, {"UPPER", "a"}, {"a:1", "a:2"}} {
		if got := media.SameImageName(pair[0], pair[1]); got != (n < 3) {
			t.Errorf("%q: got %v", pair, got)
		}
	}
}

// Options that a caller omits have defaults, and those that are given stay.
func TestOptionDefaults(t *testing.T) {
	o := media.Options{}.WithDefaults()
	if o.Platform.String() != "linux/amd64" || !o.EveryLevel || o.UserAgent != "vfix" || o.Progress == nil || o.Stall != registry.DefaultStall || o.Retry != registry.DefaultRetry || o.Net == nil {
		t.Errorf("got %+v", o)
	}
	given := media.Options{Platform: v1.Platform{Architecture: "arm64"}, Net: o.Net}
	given.UserAgent, given.Stall, given.Retry, given.Progress = "x", 1, registry.RetryPolicy{Tries: 1}, &imagetest.Notes{}
	got := given.WithDefaults()
	if given.Platform.OS = "linux"; got.Platform.String() != "linux/arm64" || got.EveryLevel || got.UserAgent != "x" || got.Stall != 1 || got.Retry != given.Retry || got.Progress != given.Progress || got.Net != o.Net {
		t.Errorf("got %+v", got)
	}
	if (media.Options{Platform: v1.Platform{OS: "linux"}}).WithDefaults().EveryLevel {
		t.Error("a named system: every level")
	}
}

// Closing a source calls all it was given, and returns the first error.
func TestSourceClose(t *testing.T) {
	src := &media.Source{Ref: media.Ref{Name: media.Stdin}, Path: "/tmp/x"}
	first, calls := errors.New("first"), ""
	for n, err := range []error{nil, first, errors.New("second")} {
		src.AtEnd(func() error { calls += fmt.Sprint(n); return err })
	}
	if err := src.Close(); err != first || calls != "012" {
		t.Errorf("got %v, calls %s", err, calls)
	}
	if got := src.Title(); got != "stdin" {
		t.Errorf("got the title %s", got)
	}
	if src.Ref.Name = "x"; src.Title() != "/tmp/x" {
		t.Errorf("got the title %s", src.Title())
	}
}

func TestNoteDepth(t *testing.T) {
	for layers, want := range map[int]int{media.DockerDepth: 0, media.DockerDepth + 1: 1} {
		var notes imagetest.Notes
		if media.NoteDepth(layers, &notes); len(notes.Text) != want {
			t.Errorf("%d layers: got %q", layers, notes.Text)
		}
	}
}

// -t takes a name, or a tag of the source's own.
func TestRenamed(t *testing.T) {
	for _, c := range []struct{ source, tag, want string }{
		{"docker-daemon:redis:2.8", "2.8-fixed", "redis:2.8-fixed"},
		{"docker://localhost:5000/a/b", "fixed", "localhost:5000/a/b:fixed"},
		{"docker://redis@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "fixed", "redis:fixed"},
		{"oci:old.oci", "fixed", "old:fixed"},
		{"docker-daemon:redis:2.8", "other:1", "other:1"},
		{"docker-daemon:redis:2.8", "a/other", "a/other"},
		{"docker-daemon:0123456789ab", "fixed", "fixed"},
	} {
		r, err := media.ParseRef(c.source)
		if err != nil {
			t.Fatal(err)
		}
		if got := media.Renamed(r, c.tag); got != c.want {
			t.Errorf("%s -t %s: got %s, want %s", c.source, c.tag, got, c.want)
		}
	}
}

func TestParseRefErrors(t *testing.T) {
	for in, kind := range map[string]error{
		"":                        hinterr.ErrNotFound,
		"oci:":                    hinterr.ErrNotFound,
		"docker://":               hinterr.ErrNotFound,
		"docker-archive::tag":     hinterr.ErrNotFound,
		"https://redis":           hinterr.ErrUnsupported,
		"containers-storage:abcd": hinterr.ErrUnsupported,
	} {
		_, err := media.ParseRef(in)
		if err == nil {
			t.Errorf("ParseRef(%q): no error", in)
			continue
		}
		imagetest.WantErr(t, err, kind)
	}
}
