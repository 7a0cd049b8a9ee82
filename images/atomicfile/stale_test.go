package atomicfile_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/tests/imagetest"
)

// Who gets the lock on an output removes what was left of it, and nothing else.
func TestLockRemovesStale(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	blobs, other := filepath.Join(path, "blobs", "sha256"), filepath.Join(path, "blobs", "sha512")
	for _, dir := range []string{blobs, other} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(names ...string) {
		for _, n := range names {
			if err := os.WriteFile(n, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	directory := atomicfile.HeldName(path)
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	stale := []string{atomicfile.HeldName(path), filepath.Join(directory, "packed"),
		atomicfile.TempName(filepath.Join(blobs, "x")),
		atomicfile.TempName(filepath.Join(other, "x")), atomicfile.HeldName(filepath.Join(path, "index.json"))}
	others := []string{ // another output's, one that needs no lock, and names that are alike
		atomicfile.HeldName(filepath.Join(dir, "out2")), atomicfile.TempName(path), filepath.Join(dir, atomicfile.HeldPrefix(path)+"mine"),
		filepath.Join(path, atomicfile.TempPrefix+"0123456789abcdef"), atomicfile.HeldName(filepath.Join(path, "other.json")), filepath.Join(blobs, "0123456789abcdef"),
	}
	write(slices.Concat(stale, others)...)
	unlock := imagetest.Must[func()](t)(atomicfile.Lock(context.Background(), path, nil))
	defer unlock()
	for _, n := range append(stale, directory) {
		if _, err := os.Lstat(n); err == nil {
			t.Errorf("%s is left", n)
		}
	}
	for _, n := range others {
		if _, err := os.Lstat(n); err != nil {
			t.Error(err)
		}
	}
}

// Files made under a lock stay while somebody else waits for it.
func TestStaleStaysWhileLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f, release, err := atomicfile.CreateLocked(context.Background(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waiting := &ender{cancel: cancel}
	if _, err := atomicfile.Lock(ctx, path, waiting); err == nil {
		t.Fatal("the lock was got twice")
	}
	if _, err := os.Stat(f.Name()); err != nil {
		t.Error(err)
	}
}
