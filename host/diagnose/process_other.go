//go:build !linux

// Processes and the kernel's log on systems other than Linux: an error.

package diagnose

import "errors"

var errNotLinux = errors.New("only on Linux")

func kernelLog() ([]logEntry, error) { return nil, errNotLinux }

func sameBoot(string) bool { return false }

func pageHere() pageState { return pageUnknown }

func liveProcess(string, int, Options) (*Crash, error) {
	return nil, refused("processes can be looked at on Linux only", "give a core file, or the kernel's log")
}

func hostMemory() (uint64, bool) { return 0, false }
