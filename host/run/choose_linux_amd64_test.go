package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vfix.dev/vfix/internal/tinyelf"
)

// A program whose code cannot be seen is not one that does not call the page.
func TestChooseUnseen(t *testing.T) {
	calls := tinyelf.Bytes(1)
	calm := bytes.ReplaceAll(calls, []byte{0x00, 0x04, 0x60, 0xff}, []byte{0x00, 0x04, 0x60, 0x00})
	damaged := bytes.Clone(calls)
	damaged[54] = 1 // e_phentsize
	for name, c := range map[string]struct {
		content []byte
		want    Way
		why     string
	}{
		"calls":       {calls, Memfd, "can be patched"},
		"calls not":   {calm, AsIs, "nothing in it calls"},
		"damaged":     {damaged, Trace, "cannot be seen"},
		"packed":      {append(bytes.Clone(calm), "UPX!"...), Trace, "UPX"},
		"32-bit":      {append([]byte("\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00"), make([]byte, 100)...), AsIs, "32-bit"},
		"no ELF file": {[]byte("text"), "", ""},
	} {
		file := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(file, c.content, 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := choose(&program{file: file, path: file}, Auto)
		if c.want == "" {
			if err == nil {
				t.Errorf("%s: got %+v", name, got)
			}
			continue
		}
		if err != nil || got.way != c.want || !strings.Contains(got.why, c.why) {
			t.Errorf("%s: got %+v, %v, want %s: %s", name, got, err, c.want, c.why)
		}
	}
}
