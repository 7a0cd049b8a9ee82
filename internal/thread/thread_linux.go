// Package thread starts threads that may change what all threads of a process usually share.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Go calls f in a goroutine with a thread of its own, which ends with it: f may join namespaces. It is never the
// process's first thread: that one cannot end, and /proc/self/mountinfo and /proc/self/ns show what it sees.
func Go(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// While this goroutine has the first thread, the next gets another.
		begun := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(begun)
			f()
		}()
		<-begun
		runtime.UnlockOSThread()
	}()
}
