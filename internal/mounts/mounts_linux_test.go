package mounts

import (
	"strings"
	"testing"
)

// A line that cannot be read hides no other, and is not a mount.
func TestRead(t *testing.T) {
	const good, octal = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue", `40 35 0:5 / /a\040b ro - tmpfs tmpfs ro`
	for name, c := range map[string]struct{ text, want string }{
		"none":                   {"", ""},
		"two":                    {good + "\n" + octal + "\n", "/mnt2|/a b"},
		"no end":                 {good + "\n" + octal, "/mnt2|/a b"},
		"cut off":                {good + "\n41 35 0:6 / /c", "/mnt2"},
		"words before and after": {"not a mount\n" + good + "\n\n" + octal, "/mnt2|/a b"},
		"numbers that are words": {"x y 0:6 / /c rw - tmpfs tmpfs rw\n" + good, "/mnt2"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range Read([]byte(c.text)) {
				got = append(got, m.Mountpoint)
			}
			if strings.Join(got, "|") != c.want {
				t.Errorf("got %q, want %s", got, c.want)
			}
		})
	}
}
