package xattrs

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
	if names, err := List(fd); errors.Is(err, unix.ENOTSUP) {
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
	names, err := List(fd)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if !slices.Contains(names, name) {
			t.Errorf("%s: not in %q", name, names)
		}
		if got, err := Get(fd, name); err != nil || string(got) != value {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := Get(fd, "user.none"); !errors.Is(err, unix.ENODATA) {
		t.Errorf("one that is not there: got %v, want %v", err, unix.ENODATA)
	}
}
