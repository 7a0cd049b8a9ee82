package patch_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/internal/atomicfile"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/tests/imagetest"
)

// afterReading calls a function when the input has been read.
type afterReading struct {
	progress.Silent
	do func()
}

func (a afterReading) Start(string, string, int64) progress.Task { return a }
func (a afterReading) Done()                                     { a.do() }

// A file that changes between its examination and its patch is an error: it stays as it is, the file before it is
// patched, and nothing is left over.
func TestChangedWhileRead(t *testing.T) {
	for name, change := range map[string]func(file string) error{
		"control": func(string) error { return nil },
		"longer": func(file string) error {
			fi := imagetest.Stat(t, file)
			return errors.Join(os.Truncate(file, fi.Size()+1), os.Chtimes(file, fi.ModTime(), fi.ModTime()))
		},
		"another time": func(file string) error { return os.Chtimes(file, imagetest.TestTime.Add(1), imagetest.TestTime.Add(1)) },
		"another file": func(file string) error {
			fi := imagetest.Stat(t, file)
			return errors.Join(os.Rename(file, file+".old"), os.WriteFile(file, imagetest.LegacyELF("d"), 0o751), os.Chtimes(file, fi.ModTime(), fi.ModTime()))
		},
		"a fifo": func(file string) error { return errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)) },
		"gone":   os.Remove,
	} {
		dir, changed := imagetest.LegacyDir(t), ""
		o := patch.Options{InPlace: true, Progress: afterReading{do: func() {
			if err := change(dir + "/bin/c"); err != nil {
				t.Error(err)
			}
			changed = imagetest.FileListing(t, dir+"/bin")
		}}}
		_, err := patch.All(t.Context(), []string{dir}, o)
		if (err == nil) != (name == "control") || err != nil && !strings.Contains(err.Error(), "bin/c: ") {
			t.Errorf("%s: got %v", name, err)
		}
		imagetest.WantContent(t, dir+"/lib/a", imagetest.FixedELF("a"))
		if same := imagetest.FileListing(t, dir+"/bin") == changed; same == (name == "control") {
			t.Errorf("%s: it stays as it is: %v", name, same)
		}
		if strings.Contains(imagetest.FileListing(t, filepath.Dir(dir)), atomicfile.TempPrefix) {
			t.Errorf("%s: left over:\n%s", name, imagetest.FileListing(t, dir))
		}
		if again := imagetest.Patch(t, patch.Options{InPlace: true}, dir); (len(again.ToPatch()) > 0) != (err != nil && name != "a fifo" && name != "gone") {
			t.Errorf("%s: again: got %s", name, imagetest.Paths(again))
		}
	}
}

// A directory that a symlink replaces after the examination leads to no other file of the root: what has the name of a
// hard link there is not replaced.
func TestReplacedDirectory(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	other := imagetest.Write(t, dir+"/bin/a", []byte("another file"))
	o := patch.Options{InPlace: true, Progress: afterReading{do: func() {
		if err := errors.Join(os.Rename(dir+"/lib", dir+"/moved"), os.Symlink("bin", dir+"/lib")); err != nil {
			t.Error(err)
		}
	}}}
	_, err := patch.All(t.Context(), []string{dir}, o)
	if err == nil || err.Error() != dir+"/lib/a: changed while it was read" {
		t.Errorf("got %v", err)
	}
	imagetest.WantContent(t, other, []byte("another file"))
	imagetest.WantContent(t, dir+"/moved/a", imagetest.LegacyELF("a"))
	imagetest.WantContent(t, dir+"/b", imagetest.FixedELF("a"))
}

// Each file that loses a mark says so, whichever way it is patched; a file that does not change keeps it.
func TestDroppedMarks(t *testing.T) {
	imagetest.AsRoot(t, "security xattrs")
	const mark = "security.ima"
	for name, c := range map[string]struct {
		options func(out string) patch.Options
		file    string // below the directory; "" for all of it
	}{
		"in place":           {func(string) patch.Options { return patch.Options{InPlace: true} }, ""},
		"a file in place":    {func(string) patch.Options { return patch.Options{InPlace: true} }, "/bin/c"},
		"a copy":             {func(out string) patch.Options { return patch.Options{Output: out} }, ""},
		"a copy of a file":   {func(out string) patch.Options { return patch.Options{Output: out} }, "/bin/c"},
		"a copy of a modern": {func(out string) patch.Options { return patch.Options{Output: out} }, "/bin/modern"},
	} {
		dir, out := imagetest.LegacyDir(t), t.TempDir()+"/out"
		for _, file := range []string{"/bin/c", "/bin/modern", "/lib/a"} {
			if err := unix.Setxattr(dir+file, mark, []byte("\x03x"), 0); errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
				t.Skipf("%s: %v", mark, err)
			} else if err != nil {
				t.Fatal(err)
			}
		}
		o := c.options(out)
		f := imagetest.Patch(t, o, dir+c.file)
		for _, file := range f.Files {
			if got := strings.Join(file.Plan.Consequences, "\n"); strings.Count(got, mark+" dropped") != 1 {
				t.Errorf("%s: %s: got warnings %q", name, file.Path, got)
			}
		}
		modern := dir + "/bin/modern"
		switch {
		case o.Output != "" && c.file == "/bin/modern":
			modern = out
		case o.Output != "" && c.file == "":
			modern = out + "/bin/modern"
		}
		if _, err := unix.Getxattr(modern, mark, nil); err != nil {
			t.Errorf("%s: %s of a file that does not change: %v", name, mark, err)
		}
	}
	// A tarball without anything to patch is copied with its own; one with something says which file.
	dir := t.TempDir()
	for text, warnings := range map[string]int{"modern": 0, "legacy": 1} {
		member := imagetest.ModernM("bin/c")
		if text == "legacy" {
			member = imagetest.LegacyM("bin/c", "1")
		}
		in := imagetest.Write(t, filepath.Join(dir, text+".tar"), imagetest.TarMembers(t, member))
		if err := unix.Setxattr(in, mark, []byte("\x03x"), 0); err != nil {
			t.Fatal(err)
		}
		f := imagetest.Patch(t, patch.Options{Output: in + ".out"}, in)
		_, err := unix.Getxattr(in+".out", mark, nil)
		if len(f.Warnings) != warnings || (err == nil) != (warnings == 0) || len(f.Files) != warnings || warnings > 0 && f.Files[0].Path != in+":bin/c" {
			t.Errorf("%s: got %q, %s, %v", text, f.Warnings, imagetest.Paths(f), err)
		}
	}
}

// Paths that cannot be patched, and stamps that cannot be read or written.
func TestRefusedPaths(t *testing.T) {
	dir := imagetest.LegacyDir(t)
	layout := strings.TrimSuffix(imagetest.StoreOCI(t, imagetest.TinyImage(t)), ":base")
	file, missing := dir+"/text", dir+"/missing"
	for _, c := range []struct {
		path, since string
		hint, want  string
	}{
		{missing, "", "", "no such file or directory"},
		{"dir:x/y", "", "name the directory: x/y", "dir:x/y: patch takes a path without a prefix"},
		{"docker://x/y:1", "", "vfix rebuild docker://x/y:1", "docker://x/y:1: is an image; patch works on the files of a root filesystem"},
		{strings.TrimPrefix(layout, "oci:"), "", "vfix rebuild oci:", "is an image; patch works on the files of a root filesystem"},
		{dir, dir, "--since", dir + ": not a regular file"},
		{dir, file + "/stamp", "", "not a directory"},
		{dir, missing + "/stamp", "--since", "the files are patched, but the time of the run is not recorded: open " + missing + "/stamp: no such file or directory"},
	} {
		_, err := patch.All(t.Context(), []string{c.path}, patch.Options{InPlace: true, Since: c.since})
		if hint := hinterr.HintOf(err); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(hint, c.hint) || (hint == "") != (c.hint == "") {
			t.Errorf("%s since %q: got %v with the hint %q", c.path, c.since, err, hint)
		}
	}
	stamp := filepath.Join(t.TempDir(), "stamp")
	defer unix.Umask(unix.Umask(0))
	imagetest.Patch(t, patch.Options{InPlace: true, Since: stamp}, dir)
	if mode := imagetest.Stat(t, stamp).Mode(); mode != 0o644 {
		t.Errorf("got a stamp with the mode %v", fmt.Sprint(mode))
	}
}
