package main

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		`Get "https://user:hunter2@reg.example/v2/": EOF`:                      `Get "https://reg.example/v2/": EOF`,
		`"somebody:hunter2@reg.example/x:1" is not a name`:                     `"REDACTED@reg.example/x:1" is not a name`,
		"redis:2.8.22@sha256:" + strings.Repeat("ab", 32):                      "redis:2.8.22@sha256:" + strings.Repeat("ab", 32),
		"https://token@reg.example/x":                                          "https://reg.example/x",
		"GET https://s3.example/b?X-Amz-Signature=abc123&X-Amz-Date=2026: 403": "GET https://s3.example/b?X-Amz-Signature=REDACTED&X-Amz-Date=REDACTED 403",
		"https://auth.example/token?scope=repository:a:pull&service=reg":       "https://auth.example/token?scope=repository:a:pull&service=reg",
		"Authorization: Bearer eyJhbGciOi.x-y_z":                               "Authorization: Bearer REDACTED",
		"authorization: basic dXNlcjpwYXNz":                                    "authorization: basic REDACTED",
		"docker://reg.example/app:1@sha256:" + strings.Repeat("ab", 32):        "docker://reg.example/app:1@sha256:" + strings.Repeat("ab", 32),
		"a plain message, basic facts: 5 != 3":                                 "a plain message, basic facts: 5 != 3",
	} {
		if got := redact(in); got != want {
			t.Errorf("redact(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"usr/lib/ä b.so":     "usr/lib/ä b.so",
		"a\x1b[2Jb":          `a\x1b[2Jb`,
		"line\nbreak\ttab":   `line\nbreak\ttab`,
		"bad\xff\xfeutf":     `bad\xff\xfeutf`,
		"right\u202eleft":    `right\u202eleft`,
		"c1 \u009b31m":       `c1 \u009b31m`,
		"\"quoted\" back\\s": "\"quoted\" back\\s",
		"real \ufffd":        "real \ufffd",
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestColour(t *testing.T) {
	for _, c := range []struct {
		goos string
		env  map[string]string
		want bool
	}{
		{"linux", nil, true},
		{"linux", map[string]string{"NO_COLOR": "1"}, false},
		{"linux", map[string]string{"NO_COLOR": ""}, true},
		{"linux", map[string]string{"TERM": "dumb"}, false},
		{"windows", nil, false},
		{"windows", map[string]string{"WT_SESSION": "x"}, true},
		{"windows", map[string]string{"WT_SESSION": "x", "NO_COLOR": "1"}, false},
	} {
		if got := colour(func(k string) string { return c.env[k] }, c.goos); got != c.want {
			t.Errorf("%s %v: got %v, want %v", c.goos, c.env, got, c.want)
		}
	}
	if got := (palette{}).red("x"); got != "x" {
		t.Errorf("a palette that is off paints: %q", got)
	}
	if got := (palette{on: true}).red("x"); got == "x" {
		t.Error("a palette that is on does not paint")
	}
}
