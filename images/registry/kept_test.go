package registry_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/registry"
)

// open returns the number of open files of this process without sockets, as those of earlier tests close at any
// time.
func open() (n int) {
	all, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range all {
		if to, err := os.Readlink(fd); err == nil && filepath.IsAbs(to) {
			n++
		}
	}
	return n
}

// A kept blob stays until its last reader is done; a blob with another digest is not kept.
func TestKept(t *testing.T) {
	before := open()
	net := registry.NewNetwork(registry.Options{})
	content := bytes.Repeat([]byte("layer"), 1000)
	h, _, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	nobody := func() {}
	net.KeepContent(h, content, net.Keep([]v1.Hash{h})) // its user ends before it is read
	release := net.Keep([]v1.Hash{h})
	net.KeepContent(h, content[1:], nobody)
	if net.Begun(h) {
		t.Fatal("a blob that has not its digest is kept")
	}
	net.Keep([]v1.Hash{h})()
	net.KeepContent(h, content, func() {
		if !net.Begun(h) {
			t.Error("two readers keep a blob")
		}
	})
	first, second := net.OpenKept(h), net.OpenKept(h)
	if first == nil || second == nil {
		t.Fatal("it is not kept")
	}
	first.Close()
	first.Close()
	release()
	if got, err := io.ReadAll(second); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	second.Close()
	if _, err := second.Read(make([]byte, 1)); err == nil || net.OpenKept(h) != nil {
		t.Error("it is kept for nobody")
	}
	if n := open(); n != before {
		t.Errorf("%d files are open, and %d were before", n, before)
	}
}
