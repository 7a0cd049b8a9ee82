package images

import "testing"

func TestParseRef(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Ref
	}{
		{"redis", Ref{Transport: Plain, Name: "redis", Guessed: true}},
		{"redis:2.8.22", Ref{Transport: Plain, Name: "redis:2.8.22", Guessed: true}},
		{"docker:27-cli", Ref{Transport: Plain, Name: "docker:27-cli", Guessed: true}},
		{"localhost:5000/a/b:c", Ref{Transport: Plain, Name: "localhost:5000/a/b:c", Guessed: true}},
		{`C:\images\a.tar`, Ref{Transport: Plain, Name: `C:\images\a.tar`, Guessed: true}},
		{"c:/images/a.tar", Ref{Transport: Plain, Name: "c:/images/a.tar", Guessed: true}},
		{"docker-daemon:redis:2.8", Ref{Transport: Daemon, Name: "redis:2.8"}},
		{"docker://redis@sha256:ab", Ref{Transport: Registry, Name: "redis@sha256:ab"}},
		{"docker-archive:a.tar", Ref{Transport: DockerArchive, Name: "a.tar"}},
		{"docker-archive:a.tar:h:5000/redis:2", Ref{Transport: DockerArchive, Name: "a.tar", Tag: "h:5000/redis:2"}},
		{`docker-archive:C:\a.tar:redis:2`, Ref{Transport: DockerArchive, Name: `C:\a.tar`, Tag: "redis:2"}},
		{"oci:/x/dir:v1", Ref{Transport: OCILayout, Name: "/x/dir", Tag: "v1"}},
		{`oci:d:\x`, Ref{Transport: OCILayout, Name: `d:\x`}},
		{"oci-archive:x.tar", Ref{Transport: OCIArchive, Name: "x.tar"}},
		{"dir:/srv/root:1", Ref{Transport: Dir, Name: "/srv/root:1"}},
	} {
		got, err := ParseRef(c.in)
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
		"":                        ErrNotFound,
		"oci:":                    ErrNotFound,
		"docker://":               ErrNotFound,
		"docker-archive::tag":     ErrNotFound,
		"https://redis":           ErrUnsupported,
		"containers-storage:abcd": ErrUnsupported,
	} {
		_, err := ParseRef(in)
		if err == nil {
			t.Errorf("ParseRef(%q): no error", in)
			continue
		}
		wantErr(t, err, kind)
	}
}
