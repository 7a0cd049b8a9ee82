// Which hooks of a container are vfix's own.

package ociruntime

import (
	"bytes"
	"os"
	"strings"
)

// These take the place of a runtime's command if vfix-runtime is a hook.
const (
	HookCommand    = "hook"    // that does the work of a start
	startedCommand = "started" // that records it
)

// deleted ends the path of a program whose file was replaced (proc_pid_exe(5)).
const deleted = " (deleted)"

// isOwnHook reports whether a hook is this program as a hook: by its path, of the same file, or of a copy, as the NRI
// plugin makes one.
func isOwnHook(h specHook) bool {
	if len(h.Args) == 0 {
		return false
	}
	if c := parseArgs(h.Args[1:]); c.name != HookCommand && c.name != startedCommand {
		return false
	}
	const self = "/proc/self/exe"
	if path, err := os.Readlink(self); err == nil && strings.TrimSuffix(path, deleted) == h.Path {
		return true // an upgrade may replace it meanwhile
	}
	is, err := os.Stat(h.Path)
	own, oerr := os.Stat(self)
	if err != nil || oerr != nil || !is.Mode().IsRegular() || is.Size() != own.Size() {
		return false
	}
	if os.SameFile(is, own) {
		return true
	}
	a, err := os.ReadFile(h.Path)
	b, oerr := os.ReadFile(self)
	return err == nil && oerr == nil && bytes.Equal(a, b)
}
