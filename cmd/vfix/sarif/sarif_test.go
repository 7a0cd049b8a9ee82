// Paths as URIs.

package sarif

import "testing"

// A name with control characters, with a colon, and with bytes that are not UTF-8, is a URI.
func TestSARIFPaths(t *testing.T) {
	for path, want := range map[string]string{
		"usr/lib/a b\x1b.so": "usr/lib/a%20b%1B.so", "a:b": "./a:b", "usr/\xff": "usr/%FF",
	} {
		if got := at(path, nil).Physical.Artifact.URI; got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}
