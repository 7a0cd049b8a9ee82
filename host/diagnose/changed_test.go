package diagnose

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"vfix.dev/vfix/tests/recorded"
)

// Each byte of a core is changed, and what is said about it is recorded: a crash that another byte makes another one,
// one of which less is known, or an error.
func TestChangedCores(t *testing.T) {
	recorded.Changed(t, "core", crashedCore().bytes(), func(b []byte) string {
		c, err := Core("core", bytes.NewReader(b), Options{Root: fstest.MapFS{}, HasCommand: noCommand})
		if err != nil {
			return err.Error()
		}
		var w strings.Builder
		keepCrash(&w, c)
		return w.String()
	})
}
