package screen

import (
	"os"
	"strings"
	"testing"
)

// The hint about a file that holds programs is a command that unpacks it, and says what to do then.
func TestUnpack(t *testing.T) {
	t.Chdir(t.TempDir())
	for content, want := range map[string]string{
		"!<arch>\ndebian-binary   ":                "unpack it: dpkg-deb -x 'a b' 'a b.d' && vfix scan 'a b.d'",
		"\xed\xab\xee\xdb\x03":                     "unpack it: mkdir 'a b.d' && rpm2cpio 'a b' | cpio -idmD 'a b.d' && vfix scan 'a b.d'",
		"\xfd7zXZ\x00":                             "unpack it: xz -dc 'a b' | vfix scan -",
		strings.Repeat("\x00", 0x438) + "\x53\xef": "unpack it: mkdir 'a b.d' && mount -o ro,loop 'a b' 'a b.d' && vfix scan 'a b.d'",
		"#! /bin/sh -e\n":                          "a script runs its interpreter: vfix scan /bin/sh",
		"#!":                                       "",
		"":                                         "",
	} {
		if err := os.WriteFile("a b", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := Unpack("a b"); got != want {
			t.Errorf("%.20q: got %q, want %q", content, got, want)
		}
	}
	for _, name := range []string{"absent", "."} {
		if got := Unpack(name); got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
