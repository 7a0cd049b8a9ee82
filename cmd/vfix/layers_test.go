package main

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are the packages of internal, rewriter, images, host and cmd, lowest first: each may import
// those above it in this list alone. A package that is not listed fails the test.
var layers = []string{
	"internal/hinterr", "internal/kernellog", "internal/progress", "internal/textutil", "internal/rootpath", "internal/filecopy", "internal/atomicfile",
	"rewriter/x86", "rewriter/elf", "rewriter/find", "rewriter/patch",
	"internal/loads", "internal/addedfiles",
	"images/blob",
	"images/schema1",
	"images/source",
	"images/hazards",
	"images/contents",
	"images/fallback",
	"images/patch",
	"images",
	"images/lists",
	"host/jail", "host/probe", "host/run", "host/examiner", "host/node", "host/hotfix",
	"host/bench", "host/diagnose", "host/doctor", "host/nri", "host/install",
	"cmd/vfix/screen",
	"cmd/vfix", "cmd/vfix-runtime",
}

// ends are the packages that no other one of images or host imports: what a verb needs alone.
var ends = []string{"images/lists", "host/hotfix", "host/install", "host/doctor", "host/bench", "host/run"}

func TestImportsPointDownward(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	for _, top := range []string{"internal", "rewriter", "images", "host", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			rel, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			at := filepath.ToSlash(rel)
			seen[at] = true
			imports, err := importsOf(path, nil)
			for _, i := range imports {
				if to, ok := strings.CutPrefix(i, module); ok && !mayImport(at, to) {
					t.Errorf("%s imports %s, which is not below %s", path, to, at)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for at := range seen {
		if !slices.Contains(layers, at) {
			t.Errorf("%s: not in the list of layers", at)
		}
	}
	for _, at := range layers {
		if !seen[at] {
			t.Errorf("%s: listed as a layer, and has no Go files", at)
		}
	}
}

// A stranger finds each package in the table of ARCHITECTURE.md.
func TestPackagesAreInArchitecture(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range layers {
		name := at[strings.LastIndex(at, "/")+1:] + "`"
		if !strings.Contains(string(page), "`"+name) && !strings.Contains(string(page), "/"+name) {
			t.Errorf("ARCHITECTURE.md does not have %s", at)
		}
	}
}

// mayImport reports whether the list lets one package import another; packages outside it
// (shim, docs) are TestImports' business. None imports a package of tests.
func mayImport(at, to string) bool {
	if strings.HasPrefix(to, "tests/") {
		return false
	}
	from, below := slices.Index(layers, at), slices.Index(layers, to)
	return below < 0 || below < from && (!slices.Contains(ends, to) || strings.HasPrefix(at, "cmd/"))
}

// The control: upward, and into the end of a branch.
func TestUpwardImportsAreSeen(t *testing.T) {
	for _, tc := range []struct {
		at, to string
		want   bool
	}{
		{"images/source", "images/blob", true},
		{"images/blob", "images/source", false},
		{"images/source", "images", false},
		{"images", "rewriter/patch", true},
		{"images", "tests/imagetest", false},
		{"cmd/vfix/screen", "cmd/vfix", false},
		{"rewriter/elf", "rewriter/find", false},
	} {
		if got := mayImport(tc.at, tc.to); got != tc.want {
			t.Errorf("%s imports %s: got %v, want %v", tc.at, tc.to, got, tc.want)
		}
	}
}

// Built files are not committed: a program in the tree makes every clone as large as itself, for good.
func TestNothingBuiltIsCommitted(t *testing.T) {
	list := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached")
	list.Dir = filepath.Join("..", "..")
	names, err := list.Output()
	if err != nil {
		t.Skipf("git ls-files: %v: this is not a clone", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(list.Dir, name))
		if err != nil || !info.Mode().IsRegular() {
			continue // removed, and not committed yet
		}
		f, err := os.Open(filepath.Join(list.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		magic := make([]byte, 4)
		_, err = io.ReadFull(f, magic)
		f.Close()
		if size := info.Size(); size > 1<<20 || err == nil && string(magic) == "\x7fELF" {
			t.Errorf("%s (%d bytes) is committed", name, size)
		}
	}
}
