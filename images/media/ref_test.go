package media_test

import (
	"strings"
	"testing"

	"vfix.dev/vfix/images/media"
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
