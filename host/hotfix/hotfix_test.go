// The names that are refused before an engine is asked, and those that are written.

package hotfix

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

func TestNames(t *testing.T) {
	for name, hint := range map[string]string{
		"db": "", "0123abcd": "", "a_b.c-d": "",
		"redis:2.8.22":     "vfix rebuild -t redis:2.8.22 redis:2.8.22",
		"docker://a/b":     "vfix rebuild -t docker://a/b",
		"pod/web":          "kubectl set image",
		"pod:web":          "kubectl set image",
		"../images/x/json": "vfix rebuild",
		"":                 "vfix rebuild",
	} {
		err := checkName(name)
		if hint == "" && err != nil || hint != "" && (!errors.Is(err, hinterr.ErrUnsupported) || !strings.Contains(hinterr.HintOf(err), hint)) {
			t.Errorf("%q: got %v, hint %q; want %q", name, err, hinterr.HintOf(err), hint)
		}
	}
}

func TestVisible(t *testing.T) {
	mounts := []string{"/etc/x", "/tmp", "/var/lib"}
	got := visible([]string{"var/lib/a", "var/liba", "etc/x", "etc/xy", "tmp", "bin/sh"}, mounts)
	if want := []string{"var/liba", "etc/xy", "bin/sh"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := visible([]string{"a"}, []string{"/"}); len(got) > 0 {
		t.Errorf("below /: got %q", got)
	}
}
