package elf

import (
	"strings"
	"testing"
)

func TestBuildID(t *testing.T) {
	note := func(name, desc string, typ byte) string {
		pad := func(s string) string { return s + strings.Repeat("\x00", (4-len(s)%4)%4) }
		return string([]byte{byte(len(name)), 0, 0, 0, byte(len(desc)), 0, 0, 0, typ, 0, 0, 0}) + pad(name) + pad(desc)
	}
	abi, id := note("GNU\x00", "0123456789abcdef", 1), note("GNU\x00", "\x01\xab\xff", 3)
	for name, c := range map[string][2]string{
		"alone": {id, "01abff"}, "of one byte": {note("GNU\x00", "\x07", 3), "07"}, "without bytes": {note("GNU\x00", "", 3) + id, "01abff"},
		"the longest": {note("GNU\x00", strings.Repeat("\x01", 64), 3), strings.Repeat("01", 64)}, "longer": {note("GNU\x00", strings.Repeat("\x01", 65), 3) + id, "01abff"},
		"second": {abi + id, "01abff"}, "none": {abi, ""}, "empty": {"", ""},
		"another owner": {note("Go\x00\x00", "\x01", 3), ""}, "cut off": {id[:len(id)-2], ""},
		"long name": {"\xff\xff\xff\xff\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00abcd", ""},
	} {
		if got := BuildID([]byte(c[0])); got != c[1] {
			t.Errorf("%s: got %q, want %q", name, got, c[1])
		}
	}
}
