package filecopy

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestXattrs(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	if names, err := ListXattrs(fd); errors.Is(err, unix.ENOTSUP) {
		t.Skip("the file system of the temporary directory has no extended attributes")
	} else if err != nil || slices.Contains(names, "user.a") {
		t.Fatalf("before: got %q, %v", names, err)
	}
	want := map[string]string{"user.a": "", "user.b": "b\x00b", "user.c": strings.Repeat("c", 1000)}
	for name, value := range want {
		if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil {
			t.Skip("no user attributes here: ", err)
		}
	}
	names, err := ListXattrs(fd)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if !slices.Contains(names, name) {
			t.Errorf("%s: not in %q", name, names)
		}
		if got, err := GetXattr(fd, name); err != nil || string(got) != value {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := GetXattr(fd, "user.none"); !errors.Is(err, unix.ENODATA) {
		t.Errorf("one that is not there: got %v, want %v", err, unix.ENODATA)
	}
}

// The list of no file is an error; an attribute that grows, or goes, while it is read is read again.
func TestSized(t *testing.T) {
	if _, err := ListXattrs(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("no file: got %v", err)
	}
	type answer struct {
		n   int
		err error
	}
	for _, c := range []struct {
		name    string
		answers []answer // to the question for the size, and for the value, in turn
		want    string
		err     error
	}{
		{"none", []answer{{0, nil}}, "", nil},
		{"one byte", []answer{{1, nil}, {1, nil}}, "x", nil},
		{"refused", []answer{{-1, unix.EPERM}}, "", unix.EPERM},
		{"refused, with a size", []answer{{2, unix.EPERM}}, "", unix.EPERM},
		{"grows", []answer{{1, nil}, {-1, unix.ERANGE}, {2, nil}, {2, nil}}, "xx", nil},
		{"shrinks", []answer{{3, nil}, {2, nil}}, "xx", nil},
		{"goes", []answer{{3, nil}, {-1, unix.ENODATA}}, "", unix.ENODATA},
	} {
		calls := 0
		b, err := sized(func(b []byte) (int, error) {
			a := c.answers[min(calls, len(c.answers)-1)]
			if (b == nil) != (calls%2 == 0) || b != nil && len(b) != c.answers[calls-1].n {
				t.Errorf("%s: call %d gets %d bytes", c.name, calls, len(b))
			}
			calls++
			copy(b, "xxx")
			return a.n, a.err
		})
		if string(b) != c.want || !errors.Is(err, c.err) || calls != len(c.answers) {
			t.Errorf("%s: got %q, %v after %d calls", c.name, b, err, calls)
		}
	}
}
