package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeFile(t testing.TB, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLookup: as execvp(3) and load_script have it.
func TestLookup(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeFile(t, "a/prog", "\x7fELF", 0o755)
	writeFile(t, "b/prog", "\x7fELF", 0o755)
	writeFile(t, "a/plain", "text", 0o644)
	writeFile(t, "b/plain", "\x7fELF", 0o755)
	writeFile(t, "a/denied", "text", 0o644)
	writeFile(t, "here", "\x7fELF", 0o755)
	writeFile(t, "one", "#!"+dir+"/a/prog\nmore", 0o755)
	writeFile(t, "arg", "#! \t"+dir+"/a/prog \t-x  -y \t\nmore", 0o755)
	writeFile(t, "two", "#!"+dir+"/arg -z\n", 0o755)
	writeFile(t, "lost", "#!/nowhere/sh\n", 0o755)
	writeFile(t, "empty", "#! \n", 0o755)
	writeFile(t, "loop", "#!"+dir+"/loop\n", 0o755)
	writeFile(t, "long", "#!"+dir+"/a/"+strings.Repeat("p", 300), 0o755)
	for _, c := range []struct {
		line, path string
		file, args string
		err        error
	}{
		{"prog x", "a:b", "a/prog", "prog x", nil},
		{"prog", "b:a", "b/prog", "prog", nil},
		{"plain", "a:b", "b/plain", "plain", nil},
		{"denied", "a:b", "", "", ErrNotExecutable},
		{"here", "a::b", "./here", "here", nil},
		{"here", "a", "", "", ErrNoCommand},
		{"./here", "a", "./here", "./here", nil},
		{"a/prog", "", "a/prog", "a/prog", nil},
		{"a/nothing", "", "", "", ErrNoCommand},
		{"here/prog", "", "", "", ErrNoCommand},
		{"./a", "", "", "", ErrNotExecutable},
		{"./one x", "", dir + "/a/prog", dir + "/a/prog ./one x", nil},
		{"./arg x", "", dir + "/a/prog", dir + "/a/prog -x  -y ./arg x", nil},
		{"two x", ":", dir + "/a/prog", dir + "/a/prog -x  -y " + dir + "/arg -z ./two x", nil},
		{"./lost", "", "", "", ErrNoCommand},
		{"./empty", "", "", "", ErrNotExecutable},
		{"./loop", "", "", "", ErrNotExecutable},
		{"./long", "", "", "", ErrNoCommand},
	} {
		p, err := lookup(strings.Fields(c.line), c.path)
		if c.err != nil {
			if !errors.Is(err, c.err) {
				t.Errorf("%s with PATH=%s: got %v, want %v", c.line, c.path, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s with PATH=%s: %v", c.line, c.path, err)
			continue
		}
		if got := strings.Join(p.args, " "); p.file != c.file || got != c.args || strings.Join(p.typed, " ") != c.line {
			t.Errorf("%s with PATH=%s: got %s, %s, want %s, %s", c.line, c.path, p.file, got, c.file, c.args)
		}
	}
	if _, err := lookup([]string{""}, "a"); !errors.Is(err, ErrNoCommand) {
		t.Errorf("an empty name: got %v", err)
	}
}
