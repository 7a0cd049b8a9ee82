package thread

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The first thread of a process does not move, however many others go elsewhere.
func TestGo(t *testing.T) {
	before, err := os.Readlink("/proc/self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for range 300 {
		done := make(chan error)
		Go(func() {
			if unix.Gettid() == unix.Getpid() {
				t.Error("got the first thread")
			}
			done <- unix.Unshare(unix.CLONE_NEWUTS)
		})
		if err := <-done; err != nil && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Microsecond)
	}
	if after, err := os.Readlink("/proc/self/ns/uts"); err != nil || after != before {
		t.Errorf("got %s, %v, want %s", after, err, before)
	}
}
