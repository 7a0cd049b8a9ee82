package hints

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The hint about a file that holds programs is a command that unpacks it.
func TestUnpack(t *testing.T) {
	t.Chdir(t.TempDir())
	for content, want := range map[string]string{
		"!<arch>\ndebian-binary   ":                "unpack it: dpkg-deb -x 'a b' 'a b.d' && vfix scan 'a b.d'",
		"\xed\xab\xee\xdb\x03":                     "unpack it: mkdir 'a b.d' && rpm2cpio 'a b' | cpio -idmD 'a b.d' && vfix scan 'a b.d'",
		"\xfd7zXZ\x00":                             "unpack it: xz -dc 'a b' | vfix scan -",
		"\x1f\x8b\x08":                             "unpack it: gzip -dc 'a b' | vfix scan -",
		"\x28\xb5\x2f\xfd":                         "unpack it: zstd -dc 'a b' | vfix scan -",
		strings.Repeat("\x00", 0x438) + "\x53\xef": "unpack it: mkdir 'a b.d' && mount -o ro,loop 'a b' 'a b.d' && vfix scan 'a b.d'",
		"#! /bin/sh -e\n":                          "a script runs its interpreter: vfix scan /bin/sh",
		"#!/bin/sh":                                "a script runs its interpreter: vfix scan /bin/sh",
		"#!\n/bin/sh\n":                            "",
		"#!":                                       "",
		"!<arch>\nother.o/":                        "unpack it: mkdir 'a b.d' && ar x --output 'a b.d' 'a b' && vfix scan 'a b.d'",
		"QFI\xfb\x00\x00\x00\x03":                  "unpack it: mkdir 'a b.d' && guestmount -a 'a b' -i --ro 'a b.d' && vfix scan 'a b.d'",
		strings.Repeat("\x00", 0x1fe) + "\x55\xaa": "unpack it: mkdir 'a b.d' && guestmount -a 'a b' -i --ro 'a b.d' && vfix scan 'a b.d'",
		"7z\xbc\xaf\x27\x1c":                       "unpack it: 7z x -o'a b.d' 'a b' && vfix scan 'a b.d'",
		"":                                         "",
	} {
		if err := os.WriteFile("a b", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := Unpack("a b", "vfix scan"); got != want {
			t.Errorf("%.20q: got %q, want %q", content, got, want)
		}
	}
	// patch takes a file or a directory, not a stream, and cannot change one that is mounted read-only.
	for content, want := range map[string]string{
		"\xfd7zXZ\x00": "unpack it: xz -dc 'a b' > 'a b.d' && vfix patch -i 'a b.d'",
		"hsqs":         "unpack it: unsquashfs -d 'a b.d' 'a b' && vfix patch -i 'a b.d'",
		strings.Repeat("\x00", 0x438) + "\x53\xef": "unpack it: mkdir 'a b.d' && mount -o ro,loop 'a b' 'a b.d' && vfix scan 'a b.d'",
		"#! /bin/sh -e\n":                          "a script runs its interpreter: vfix scan /bin/sh",
	} {
		if err := os.WriteFile("a b", []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := Unpack("a b", "vfix patch -i"); got != want {
			t.Errorf("%.20q: got %q, want %q", content, got, want)
		}
	}
	for _, name := range []string{"absent", ".", filepath.Join("docker-daemon:redis")} {
		if got := Unpack(name, "vfix scan"); got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
