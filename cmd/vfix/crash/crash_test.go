// A word that is not a crash.

package crash

import (
	"errors"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

// An image is not a crash: the hint names the verb for it.
func TestDiagnoseImage(t *testing.T) {
	for arg, want := range map[string]string{"redis:2.8.22": "vfix scan docker://redis:2.8.22", "library/redis": "vfix scan docker://library/redis", "web": "docker ps -a", "./core": "docker ps -a"} {
		if got := hinterr.HintOf(notFound(arg, errors.New("x"))); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", arg, got, want)
		}
	}
}
