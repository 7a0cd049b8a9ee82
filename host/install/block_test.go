package install

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzBlock: a block that is put into a file and taken out leaves the file, except for a line's
// end if it had none.
func FuzzBlock(f *testing.F) {
	for _, s := range []string{"", "a = 1\n", "a = 1", "a\r\nb\r\n", "\n\n", "# vfix: end vfix\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if _, found, err := takeBlock("f", in, "vfix"); found || err != nil {
			return
		}
		back, found, err := takeBlock("f", addBlock(in, "vfix", "x = 1"), "vfix")
		if err != nil || !found {
			t.Fatalf("%q: not found: %v", in, err)
		}
		if got := string(back); got != string(in) && got != string(in)+"\n" && got != string(in)+"\r\n" {
			t.Fatalf("%q comes back as %q", in, got)
		}
	})
}

// A second run does not start while one is at work, and says so.
func TestBusy(t *testing.T) {
	root := machine(t, map[string]string{"usr/bin/dockerd": "", stateDir + "/there": ""})
	d, err := os.Open(filepath.Join(root, stateDir))
	if err != nil {
		t.Fatal(err)
	}
	if err := lock(d); err != nil {
		t.Fatal(err)
	}
	_, err = Install(options(t, Docker, root))
	var hint interface{ Hint() string }
	if !errors.Is(err, ErrBusy) || !errors.As(err, &hint) || exists(root, "usr/local") {
		t.Errorf("got %v, want %v and a hint", err, ErrBusy)
	}
	d.Close()
	r, err := Install(options(t, Docker, root))
	must(t, r, err)
}
