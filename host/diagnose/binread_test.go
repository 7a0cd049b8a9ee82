package diagnose

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var errCut = errors.New("damaged")

func cutOff(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errCut}, args...)...)
}

// reading reads one byte, and errs.
type reading struct{ err error }

func (r reading) ReadAt([]byte, int64) (int, error) { return 1, r.err }

func TestReadFull(t *testing.T) {
	r := strings.NewReader("0123456789")
	b := make([]byte, 4)
	if err := readFull(r, b, 6, "the end", cutOff); err != nil || string(b) != "6789" {
		t.Errorf("got %q, %v", b, err)
	}
	for _, tc := range []struct {
		off  uint64
		want string
	}{
		{7, "cut off: a header needs 4 bytes at offset 7, the file ends at 10"},
		{11, "the file ends at 11"},
		{1 << 62, "cut off"},
		{1<<62 + 1, "beyond any file"},
		{1<<64 - 1, "beyond any file"},
	} {
		err := readFull(r, b, tc.off, "a header", cutOff)
		if !errors.Is(err, errCut) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("offset %#x: got %v, want %q", tc.off, err, tc.want)
		}
	}
	for err, damage := range map[error]bool{iotest.ErrTimeout: false, nil: true, io.EOF: true, io.ErrUnexpectedEOF: true} {
		got := readFull(reading{err}, b, 0, "a header", cutOff)
		if errors.Is(got, errCut) != damage || errors.Is(got, iotest.ErrTimeout) == damage {
			t.Errorf("an error of reading, %v: got %v", err, got)
		}
	}
}

func TestCString(t *testing.T) {
	for in, want := range map[string]string{"": "", "\x00": "", "a": "a", "ab\x00c\x00": "ab"} {
		if got := cString([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
