package rootpath

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// links is a root of symlinks and directories; a target of "" is a directory, one of "." a file.
type links map[string]string

func (l links) readlink(real string) (string, error) {
	for i := range real {
		if real[i] == '/' && l[real[:i]] == "." {
			return "", syscall.ENOTDIR
		}
	}
	target, ok := l[real]
	switch {
	case !ok:
		return "", &fs.PathError{Op: "readlink", Path: real, Err: fs.ErrNotExist}
	case target == "" || target == ".":
		return "", nil
	}
	return target, nil
}

func TestResolve(t *testing.T) {
	root := links{
		"etc": "", "etc/passwd": ".", "usr": "", "usr/lib": "", "lib": "usr/lib", "lib64": "/usr/lib", "usr/lib/up": "../../etc",
		"usr/out": "../../../../etc", "usr/abs": "/../lib/./up/passwd", "loop": "loop", "a": "b/x", "b": "a", "gone": "/not/there/x",
	}
	for name, want := range map[string]string{
		"": "", "/": "", ".": "", "..": "", "../../..": "", "etc//passwd/": "etc/passwd", "/etc/./passwd": "etc/passwd",
		"lib/libc.so": "usr/lib/libc.so", "lib64/libc.so": "usr/lib/libc.so", "lib/..": "usr", "lib/up": "etc",
		"usr/out/passwd": "etc/passwd", "usr/abs": "etc/passwd", "../../etc/passwd": "etc/passwd",
		// Missing names are taken literally, as is .. behind them.
		"new/file": "new/file", "new/../etc/passwd": "etc/passwd", "new/a/../../lib/x": "usr/lib/x", "gone": "not/there/x", "gone/..": "not/there",
		"etc/passwd/x": "etc/passwd/x",
	} {
		if got, err := Resolve(name, root.readlink); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"loop", "a/y"} {
		if got, err := Resolve(name, root.readlink); !errors.Is(err, ErrLoop) {
			t.Errorf("%q: got %q, %v, want %v", name, got, err, ErrLoop)
		}
	}
	if _, err := Resolve("x", func(string) (string, error) { return "", fs.ErrPermission }); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want %v", err, fs.ErrPermission)
	}
}

// As many symlinks as Linux follows, and one more.
func TestMaxLinks(t *testing.T) {
	root := links{"end": "."}
	for i := range MaxLinks + 1 {
		root[strings.Repeat("l", i+1)] = strings.Repeat("l", i)
	}
	root["l"] = "end"
	if got, err := Resolve(strings.Repeat("l", MaxLinks), root.readlink); err != nil || got != "end" {
		t.Errorf("%d links: got %q, %v", MaxLinks, got, err)
	}
	if got, err := Resolve(strings.Repeat("l", MaxLinks+1), root.readlink); !errors.Is(err, ErrLoop) {
		t.Errorf("%d links: got %q, %v", MaxLinks+1, got, err)
	}
}

// A path without symlinks comes out, and comes out again.
func FuzzResolve(f *testing.F) {
	f.Add("a/b/../c", "/a", "../x")
	f.Add("l/../l/m", "a//b", "/l/./")
	f.Fuzz(func(t *testing.T, name, one, two string) {
		root := links{"a": "", "a/b": "", "l": one, "a/m": two, "l/m": two}
		real, err := Resolve(name, root.readlink)
		if err != nil {
			return
		}
		for part := range strings.SplitSeq(real, "/") {
			if part == ".." || part == "." || part == "" && real != "" {
				t.Fatalf("%q, l -> %q, m -> %q: got %q", name, one, two, real)
			}
		}
		if again, err := Resolve(real, root.readlink); err != nil || again != real {
			t.Fatalf("%q: got %q, and of that %q, %v", name, real, again, err)
		}
	})
}

// Of names in a directory on this machine: what os.Root follows without leaving, it follows alike.
func TestAsTheKernel(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, make := range []error{
		root.MkdirAll("usr/lib", 0o755), root.WriteFile("usr/lib/c", []byte("c"), 0o644), root.Symlink("usr/lib", "lib"),
		root.Symlink("../lib/c", "usr/d"), root.Symlink("./d", "usr/e"),
	} {
		if make != nil {
			t.Fatal(make)
		}
	}
	for _, name := range []string{"lib/c", "usr/d", "usr/e", "lib/../d"} {
		real, err := In(root, name)
		want, werr := root.Stat(name)
		got, gerr := root.Lstat(real)
		if err != nil || werr != nil || gerr != nil || !os.SameFile(want, got) {
			t.Errorf("%s: got %s, %v, %v, %v", name, real, err, werr, gerr)
		}
	}
	if real, err := In(root, "/usr/.."); real != "." || err != nil {
		t.Errorf("the root: got %q, %v", real, err)
	}
}
