package textutil

import (
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	words := []string{"oci", "oci-archive", "dir", "docker-daemon", "redis.tar", "redis.tgz"}
	for in, want := range map[string][]string{
		"oci-archiv": {"oci-archive"}, "oc": {"oci"}, "ocI": {"oci"}, "redis.tra": {"redis.tar"}, "docker-deamon": {"docker-daemon"},
		"oci": nil, "": nil, "o": nil, "nginx": nil, "dri": {"dir"},
		"redis.tgr": {"redis.tar", "redis.tgz"}, "oci-arch": nil,
	} {
		if got := Nearest(in, words); !slices.Equal(got, want) {
			t.Errorf("Of(%q): got %q, want %q", in, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		n    int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"tar", "tra", 1}, {"kitten", "sitting", 3}, {"ä", "a", 1}, {"abc", "", 3},
		{"ab", "ba", 1}, {"xabz", "xbaz", 1}, {"ab", "ca", 2}, {"ba", "ac", 2}, {"abcd", "badc", 2}} {
		if got := distance(c.a, c.b); got != c.n {
			t.Errorf("Distance(%q, %q): got %d, want %d", c.a, c.b, got, c.n)
		}
	}
}
