package source_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
)

func TestParseRef(t *testing.T) {
	for text, want := range map[string]source.Ref{
		"redis:2.8":                      {Name: "redis:2.8", Guessed: true},
		"docker:27-cli":                  {Name: "docker:27-cli", Guessed: true},
		"localhost:5000/a:b":             {Name: "localhost:5000/a:b", Guessed: true},
		"docker://h:5/n@sha256:aa":       {Transport: source.Registry, Name: "h:5/n@sha256:aa"},
		"docker-daemon:redis:2.8":        {Transport: source.Daemon, Name: "redis:2.8"},
		"docker-archive:a/b.tar:redis:2": {Transport: source.DockerArchive, Name: "a/b.tar", Tag: "redis:2"},
		"oci:lay:1":                      {Transport: source.OCILayout, Name: "lay", Tag: "1"},
		"oci-dir:lay:1":                  {Transport: source.OCILayout, Name: "lay", Tag: "1"},
		"oci-layout://lay":               {Transport: source.OCILayout, Name: "lay"},
		"oci-archive:-":                  {Transport: source.OCIArchive, Name: "-"},
		"dir:/a:b":                       {Transport: source.Dir, Name: "/a:b"},
	} {
		got, err := source.ParseRef(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
		if again, err := source.ParseRef(got.String()); err != nil || again != got {
			t.Errorf("%s: %s is %+v, %v", text, got, again, err)
		}
	}
	for text, want := range map[string]string{
		"":          "empty name",
		"oci:":      "no name after the prefix",
		"dockr://x": "vfix help sources",
	} {
		if _, err := source.ParseRef(text); err == nil || !strings.Contains(err.Error()+hinterr.HintOf(err), want) {
			t.Errorf("%s: got %v, hint %q", text, err, hinterr.HintOf(err))
		}
	}
}

func TestResultName(t *testing.T) {
	for text, want := range map[string]string{
		"redis":                            "redis:latest-vfix",
		"docker://h:5/a/redis:2.8":         "h:5/a/redis:2.8-vfix",
		"docker://redis@sha256:" + hex64:   "redis:vfix",
		"docker://redis:1@sha256:" + hex64: "redis:1-vfix",
		"oci:lay:2.8":                      "lay:2.8-vfix",
		"docker-archive:x.tar:redis:2.8":   "redis:2.8-vfix",
		"oci-archive:a/My App.tar.gz":      "my-app:latest-vfix",
		"docker-daemon:0123456789ab":       "",
		"oci:lay:a/B":                      "",
	} {
		ref := must(source.ParseRef(text))(t)
		if ref.Guessed {
			ref.Transport = source.Daemon
		}
		got, err := source.ResultName(ref, "", "-vfix")
		if got != want || (err != nil) != (want == "") || strings.Count(fmt.Sprint(err), "not the name of an image") > 1 {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	byID := source.Ref{Transport: source.Daemon, Name: "0123456789ab"}
	if got, err := source.ResultName(byID, "new", "-vfix"); got != "new:latest" {
		t.Errorf("-t new for an ID: got %s, %v", got, err)
	}
	redis := source.Ref{Transport: source.Registry, Name: "h/redis:2.8"}
	for tag, want := range map[string]string{"new": "h/redis:new", "other:new": "other:new"} {
		if got, err := source.ResultName(redis, tag, "-vfix"); got != want {
			t.Errorf("-t %s: got %s, %v, want %s", tag, got, err, want)
		}
	}
}

const hex64 = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// Without an engine the hint says which file to write; a file without a prefix is refused.
func TestDest(t *testing.T) {
	noEngine(t)
	src := &source.Source{Ref: source.Ref{Transport: source.OCILayout, Name: "lay", Tag: "redis:2.8"}}
	_, err := source.DefaultDest(t.Context(), src, "", "-vfix", fast)
	if !errors.Is(err, hinterr.ErrNoDaemon) || !strings.HasSuffix(hinterr.HintOf(err), "-o oci:fixed") {
		t.Errorf("got %v, hint %q", err, hinterr.HintOf(err))
	}
	text := filepath.Join(t.TempDir(), "text")
	os.WriteFile(text, []byte("x"), 0o644)
	_, err = source.DefaultDest(t.Context(), open(t, text, fast), "", "-vfix", fast)
	if err == nil || !strings.HasPrefix(err.Error(), text+": not an image") {
		t.Errorf("what is no image: got %v", err)
	}
	dir := layoutOf(t, nil)
	for name, want := range map[string]source.Transport{"a.tar": "", "./a": "", dir: "", "redis:1": source.Daemon} {
		got, err := source.ResolveDest(source.Ref{Name: name, Guessed: true})
		if (err != nil) != (want == "") && name != dir || want != "" && got.Transport != want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// A name that was probably meant as a file is not asked for at a registry.
func TestMistyped(t *testing.T) {
	noEngine(t)
	t.Chdir(t.TempDir())
	for _, name := range []string{"./imag.tar", "imge.tar", "imge.tar:1", "dir/imge.tar", "Redis", "a:b:c", "oci-archiv:imge.tar"} {
		_, err := source.Open(t.Context(), name, fast)
		if !errors.Is(err, hinterr.ErrNotFound) || err.Error() != name+": no such file or directory" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// The control: a name that begins with its registry.
	if _, err := source.Open(t.Context(), "localhost:1/my.app:1", fast); err == nil || !strings.Contains(err.Error(), "registry localhost:1:") {
		t.Errorf("got %v, want an error of the registry", err)
	}
}
