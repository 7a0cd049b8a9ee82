package textutil_test

import (
	"strings"
	"testing"

	"vfix.dev/vfix/internal/textutil"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		`Get "https://user:hunter2@reg.example/v2/": EOF`:                      `Get "https://reg.example/v2/": EOF`,
		`"somebody:hunter2@reg.example/x:1" is not a name`:                     `"REDACTED@reg.example/x:1" is not a name`,
		"redis:2.8.22@sha256:" + strings.Repeat("ab", 32):                      "redis:2.8.22@sha256:" + strings.Repeat("ab", 32),
		"dir:app@1.2: no such directory":                                       "dir:app@1.2: no such directory",
		"oci-archive:app@1.2.tar is a list; nobody:pw@h":                       "oci-archive:app@1.2.tar is a list; REDACTED@h",
		"https://token@reg.example/x":                                          "https://reg.example/x",
		"GET https://s3.example/b?X-Amz-Signature=abc123&X-Amz-Date=2026: 403": "GET https://s3.example/b?X-Amz-Signature=REDACTED&X-Amz-Date=REDACTED 403",
		"https://auth.example/token?scope=repository:a:pull&service=reg":       "https://auth.example/token?scope=repository:a:pull&service=reg",
		"Authorization: Bearer eyJhbGciOi.x-y_z":                               "Authorization: Bearer REDACTED",
		"authorization: basic dXNlcjpwYXNz":                                    "authorization: basic REDACTED",
		"docker://reg.example/app:1@sha256:" + strings.Repeat("ab", 32):        "docker://reg.example/app:1@sha256:" + strings.Repeat("ab", 32),
		"a plain message, basic facts: 5 != 3":                                 "a plain message, basic facts: 5 != 3",
	} {
		if got := textutil.Redact(in); got != want {
			t.Errorf("Redact(%q): got %q, want %q", in, got, want)
		}
	}
}
