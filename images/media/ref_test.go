package media_test

import (
	"testing"

	"vfix.dev/vfix/images/internal/imagetest"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
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
