package textutil_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"vfix.dev/vfix/internal/textutil"
)

func TestReader(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"a":                        "a",
		"plain\x00\xff":            "plain\x00\xff",
		"\xef\xbb\xbfa":            "a",
		"\xff\xfe":                 "",
		"\xff\xfea\x00\n\x00":      "a\n",
		"\xfe\xff\x00a\x00\n":      "a\n",
		"\xff\xfea\x00b":           "a\ufffd",    // half a unit
		"\xff\xfe\x3d\xd8\x00\xde": "\U0001f600", // a pair
		"\xff\xfe\x3d\xd8a\x00":    "\ufffda",    // half a pair
		"\xff\xfe" + strings.Repeat("\xe9\x00", 5000): strings.Repeat("\u00e9", 5000),
	} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(text), "by byte": iotest.OneByteReader(strings.NewReader(text))} {
			got, err := io.ReadAll(textutil.UTF8(r))
			if err != nil || string(got) != want {
				t.Errorf("%q, %s: got %q, %v, want %q", text, name, got, err, want)
			}
		}
	}
}
