// Output after the bars; long names.

package screen

import (
	"bytes"
	"strings"
	"testing"
)

// Calls after the end of the bars do not panic, and messages still appear.
func TestProgressAfterEnd(t *testing.T) {
	var stdout, stderr bytes.Buffer
	out := New(&stdout, &stderr)
	p := out.StartProgress(t.Context(), "tty")
	early := p.Start("read", "x", 10)
	out.EndProgress()
	early.Add(5)
	early.Done()
	late := p.Start("read", "y", 10)
	late.Add(10)
	late.Done()
	p.Note("still here")
	out.EndProgress()
	if !strings.Contains(stderr.String(), "vfix: still here\n") {
		t.Errorf("got %q", stderr.String())
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"short", 10, "short"},
		{"sha256:5f70bf18a086007016e9", 19, "sha256:5f70bf18a086"},
		{"sha256:5f70bf18a086007016e9", 22, "sha256:5f70bf18a086"},
		{"/srv/images/old/redis.tar", 12, "...redis.tar"},
	} {
		if got := shorten(c.in, c.n); got != c.want {
			t.Errorf("shorten(%q, %d): got %q, want %q", c.in, c.n, got, c.want)
		}
	}
}
