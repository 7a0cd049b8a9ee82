// Image names as docker understands them.

package media

import (
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"vfix.dev/vfix/internal/hinterr"
)

// sameImageName compares two tags as docker understands them: redis is
// docker.io/library/redis:latest.
func sameImageName(a, b string) bool {
	if a == b {
		return true
	}
	ta, errA := name.NewTag(a)
	tb, errB := name.NewTag(b)
	return errA == nil && errB == nil && ta.Name() == tb.Name()
}

// fullTag checks that s names an image by tag and gives it with its tag written out, but
// otherwise as it was typed: docker load wants NAME:TAG and shows what it got.
func fullTag(s string) (string, error) {
	t, err := name.NewTag(s)
	if err != nil {
		return "", BadName(s, err)
	}
	if !strings.HasSuffix(s, ":"+t.TagStr()) {
		s += ":" + t.TagStr()
	}
	return s, nil
}

// BadName words go-containerregistry's complaint about a name.
func BadName(s string, err error) error {
	return hinterr.Errorf(hinterr.ErrNotFound, "%q is not the name of an image: %v", s, err)
}
