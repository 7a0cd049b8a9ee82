package elf

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

// failing errs from an offset on.
type failing struct {
	*bytes.Reader
	from int64
}

func (f failing) ReadAt(b []byte, off int64) (int, error) {
	if off >= f.from {
		return 0, iotest.ErrTimeout
	}
	return f.Reader.ReadAt(b, off)
}

// A mark counts at the place at which its packer writes it.
func TestInside(t *testing.T) {
	const size = 10_000
	for _, c := range []struct {
		mark     string
		at, size int
		want     string
	}{
		{"", 0, size, ""}, {"", 0, 0, ""}, {"", 0, 10, ""},
		{"UPX!", 0, size, "UPX"}, {"UPX!", 1020, size, "UPX"}, {"UPX!", 1021, size, ""}, {"UPX!", 96, 100, "UPX"},
		{"AI\x02", 8, size, "AppImage"}, {"AI\x02", 7, size, ""}, {"AI\x02", 9, size, ""}, {"AI\x02", 8, 11, "AppImage"}, {"AI", 8, 10, ""},
		{pyMagic, size - 8, size, "PyInstaller"}, {pyMagic, size - 4096, size, "PyInstaller"}, {pyMagic, size - 4097, size, ""}, {pyMagic, 0, 88, "PyInstaller"},
	} {
		b := make([]byte, c.size)
		copy(b[c.at:], c.mark)
		f := &File{R: Memory(b), Size: uint64(c.size), Type: TypeExec}
		if got := f.PackedBy(); f.Err() != nil || !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%q at %d of %d: got %q, %v, want %q", c.mark, c.at, c.size, got, f.Err(), c.want)
		}
	}
	for _, from := range []int64{0, 1} {
		f := &File{R: failing{bytes.NewReader(make([]byte, size)), from}, Size: size, Type: TypeExec}
		if got := f.PackedBy(); !errors.Is(f.Err(), iotest.ErrTimeout) || got != "" {
			t.Errorf("an error from offset %d on: got %q, %v", from, got, f.Err())
		}
	}
}
