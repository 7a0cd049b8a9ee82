package images_test

import (
	"fmt"
	"strings"
	"testing"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

func ref(t *testing.T, typed string) media.Ref {
	t.Helper()
	return imagetest.Must[media.Ref](t)(media.ParseRef(typed))
}

// The destinations of a rebuild by its options, and those that are refused before the image is read.
func TestDestinations(t *testing.T) {
	imagetest.NoDaemon(t)
	dir := t.TempDir()
	inside := imagetest.LegacyDir(t)
	for _, c := range []struct {
		source, dest, tag, suffix string
		push, dry                 bool
		want                      string // what it is, the last one names it; or a part of the error
		hint                      string
	}{
		{source: "docker://h:1/a/b:1", dest: "oci:D/x", want: "oci:D/x"},
		{source: "docker://h:1/a/b:1", dest: "oci:D/x", tag: "t:1", want: "oci:D/x:t:1"},
		{source: "docker://h:1/a/b:1", dest: "oci:D/x:y", tag: "t:1", want: "oci:D/x:y"},
		{source: "docker://h:1/a/b:1", dest: "oci-archive:D/x", tag: "2", want: "oci-archive:D/x:2"},
		{source: "docker://h:1/a/b:1", dest: "docker-archive:D/x", tag: "2", want: "docker-archive:D/x:h:1/a/b:2"},
		{source: "docker://h:1/a/b:1", dest: "docker-archive:D/x", want: "docker-archive:D/x"},
		{source: "docker://h:1/a/b:1", dest: "dir:D/x", tag: "2", want: "dir:D/x"},
		{source: "docker://h:1/a/b:1", dest: "oci:D/x", tag: "2", push: true, want: "oci:D/x:2, docker://h:1/a/b:2"},
		{source: "docker://h:1/a/b:1", dest: "oci:D/x", tag: "h:1/c:3", push: true, want: "oci:D/x:h:1/c:3, docker://h:1/c:3"},
		{source: "docker://h:1/a/b:1", dest: "dir:D/x", tag: "2", push: true, want: "dir:D/x, docker://h:1/a/b:2"},
		{source: "docker://h:1/a/b:1", dest: "docker-archive:D/x", tag: "2", push: true, want: "docker-archive:D/x:h:1/a/b:2, docker://h:1/a/b:2"},
		{source: "docker://h:1/a/b:1", dest: "oci:D/x", push: true, want: "oci:D/x: no name to push under", hint: "name the result: -t REF"},
		{source: "docker://h:1/a/b:1", dest: "dir:D/x", push: true, want: "dir:D/x: no name to push under", hint: "name the result: -t REF"},
		{source: "docker://h:1/a/b:1", dest: "docker://127.0.0.1:1/c:1", want: "docker://127.0.0.1:1/c:1"},
		{source: "docker://h:1/a/b:1", dest: "docker://127.0.0.1:1/c:1", push: true, want: "docker://127.0.0.1:1/c:1"},
		{source: "docker://h:1/a/b:1", push: true, suffix: "-vfix", want: "docker://h:1/a/b:1-vfix"},
		{source: "docker://h:1/a/b:1", push: true, tag: "2", suffix: "-vfix", want: "docker://h:1/a/b:2"},
		{source: "oci:D/base:1", push: true, tag: "h:1/c:2", want: "docker://h:1/c:2"},
		{source: "oci:D/base:1", push: true, want: "no docker or podman daemon", hint: "--push needs no daemon if you name the result: -t HOST/NAME:TAG"},
		{source: "docker://h:1/a/b:1", want: "no docker or podman daemon", hint: "-o oci-archive:"},
		{source: "docker://h:1/a/b:1", dry: true, want: ""},
		{source: "docker://h:1/a/b:1", dest: "oci:D/x", dry: true, want: ""},
		{source: "docker://h:1/a/b:1", dest: "oci-archive:D/none/x", want: "no directory"},
		{source: "docker://h:1/a/b:1", dest: "D/x.tar", want: "cannot tell the output format", hint: "-o "},
		{source: "docker://h:1/a/b:1", dest: "docker-daemon:x:1", push: true, want: "no docker or podman daemon"},
		{source: "dir:" + inside, dest: "dir:" + inside + "/lib/x", dry: true, want: "is inside"},
		{source: "dir:" + inside, dest: "dir:" + inside + "/lib/x", want: "is inside"},
	} {
		here := func(s string) string { return strings.ReplaceAll(s, "D/", dir+"/") }
		src := &media.Source{Ref: ref(t, here(c.source))}
		if src.Ref.Transport == media.Dir {
			src.Path = src.Ref.Name
		}
		name := fmt.Sprintf("%s to %q, tag %q, push %v", c.source, c.dest, c.tag, c.push)
		all, err := images.Destinations(t.Context(), src, images.RebuildOptions{Dest: here(c.dest), Tag: c.tag, Suffix: c.suffix, Push: c.push, DryRun: c.dry})
		if err != nil {
			if hint := hinterr.HintOf(err); !strings.Contains(err.Error(), here(c.want)) || c.want == "" || !strings.Contains(hint, c.hint) {
				t.Errorf("%s: got %v with the hint %q, want %s", name, err, hint, here(c.want))
			}
			continue
		}
		var got []string
		for _, d := range all {
			got = append(got, d.String())
		}
		if strings.Join(got, ", ") != here(c.want) {
			t.Errorf("%s: got %s, want %s", name, strings.Join(got, ", "), here(c.want))
		}
	}
}

// The base by which a user can run or pull it, and whether its layers are copied elsewhere.
func TestNamesOfBase(t *testing.T) {
	for _, c := range []struct{ source, digest, want string }{
		{"docker-daemon:x:1", "sha256:abc", "x:1"},
		{"docker://h:1/a:1", "sha256:abc", "h:1/a:1@sha256:abc"},
		{"docker://h:1/a:1", "", "h:1/a:1"},
		{"docker://h:1/a@sha256:" + strings.Repeat("a", 64), "sha256:abc", "h:1/a@sha256:" + strings.Repeat("a", 64)},
		{"oci:dir:tag", "sha256:abc", "oci:dir:tag"},
	} {
		if got := images.BaseReference(&media.Source{Ref: ref(t, c.source), Digest: c.digest}); got != c.want {
			t.Errorf("%s: got %s, want %s", c.source, got, c.want)
		}
	}
	for _, c := range []struct {
		dest      string
		push, dry bool
		want      bool
	}{
		{"", false, false, true}, {"", true, false, false}, {"", false, true, false}, {"oci:x", false, false, true}, {"oci:x", true, false, true}, {"oci:x", false, true, false},
		{"dir:h:1/x", false, false, true}, {"docker://h:1/other", false, false, false}, {"docker://h:2/a", false, false, true}, {"oci:", false, false, false},
	} {
		if got := images.Elsewhere(&media.Source{Ref: ref(t, "docker://h:1/a:1")}, images.RebuildOptions{Dest: c.dest, Push: c.push, DryRun: c.dry}); got != c.want {
			t.Errorf("%q, push %v, dry %v: got %v", c.dest, c.push, c.dry, got)
		}
	}
}
