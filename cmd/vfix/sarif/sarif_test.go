// Names in texts and as URIs.

package sarif

import (
	"encoding/json"
	"testing"
)

// A viewer shows a text as it is, and makes a link of [text](address).
func TestNamesInTexts(t *testing.T) {
	b, err := json.Marshal(Text{"a\x1b[31m\u202e\n[fixed](https://example.org)\xff: live"})
	const want = `{"text":"a\\x1b[31m\\u202e\\n[fixed] (https://example.org)\\xff: live"}`
	if err != nil || string(b) != want {
		t.Errorf("got %s, %v, want %s", b, err, want)
	}
}

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
