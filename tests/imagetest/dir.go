// Directories with legacy files, and listings to compare directories by.

package imagetest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// LegacyDir makes a directory with legacy files lib/a (with hard link b) and bin/c, and
// others.
func LegacyDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	for _, d := range []string{"lib", "bin", "usr"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	Write(t, dir+"/lib/a", LegacyELF("a"))
	Write(t, dir+"/bin/c", LegacyELF("c"))
	Write(t, dir+"/bin/modern", ModernELF("m"))
	Write(t, dir+"/text", []byte("text\n"))
	for _, err := range []error{
		os.Link(dir+"/lib/a", dir+"/b"),
		os.Symlink("../lib/a", dir+"/bin/link"),
		os.Symlink(dir, dir+"/usr/loop"),
		os.Chmod(dir+"/bin/c", 0o751),
		os.Chtimes(dir+"/lib/a", TestTime, TestTime),
		os.Chtimes(dir+"/bin/c", TestTime, TestTime),
		os.Chtimes(dir+"/lib", TestTime, TestTime),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Listing is every name of a directory with its kind, mode, size, mtime and link target.
func Listing(t testing.TB, dir string) string { return list(t, dir, true) }

// FileListing is listing without the directories, whose times change with every temporary file.
func FileListing(t testing.TB, dir string) string { return list(t, dir, false) }

func list(t testing.TB, dir string, dirs bool) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && !dirs {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		b.WriteString(rel + " " + fi.Mode().String() + " " + fi.ModTime().UTC().Format(time.RFC3339Nano))
		if d.Type().IsRegular() {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			b.WriteString(" " + string(content))
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, _ := os.Readlink(name)
			b.WriteString(" -> " + target)
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func Stat(t testing.TB, name string) fs.FileInfo { return Must[fs.FileInfo](t)(os.Lstat(name)) }
