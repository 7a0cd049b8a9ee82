// The runtimes that vfix-runtime works in front of, and the word of the operator on them.

package policy

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

// plain are the names of runtimes that mount only what config.json says; docker-runc is Docker's until 18.06.
var plain = []string{"runc", "crun", "youki", "docker-runc"}

// hooking are the prefixes of the names of runtimes that execute hooks, with the container's mounts in a namespace
// of this machine.
var hooking = append([]string{"nvidia-container-runtime"}, plain...)

// RunsHooks reports whether a runtime, a path or a name, is known to execute hooks.
func RunsHooks(runtime string) bool {
	return slices.ContainsFunc(hooking, func(name string) bool { return strings.HasPrefix(filepath.Base(runtime), name) })
}

// IsPlain reports whether a runtime mounts what config.json says and nothing else, as far as vfix or the operator knows.
func (c Config) IsPlain(runtime string) bool {
	return slices.Contains(plain, filepath.Base(runtime)) || c.Trusts(runtime)
}

// Trusts reports whether the operator says that the program at a path brings no programs into containers.
func (c Config) Trusts(path string) bool {
	return slices.Contains(strings.Split(c.TrustedHooks, ","), path)
}

// TrustsFiles reports whether a kind of file system, by its name in mountinfo, shows all processes the same files, as far as
// vfix or the operator knows: the root of a rootless engine, and what LXCFS shows in /proc.
func (c Config) TrustsFiles(kind string) bool {
	return kind == "fuse.fuse-overlayfs" || kind == "fuse.lxcfs" || slices.Contains(strings.Split(c.TrustedFilesystems, ","), kind)
}

// RefusesAll is an error, with a hint, if fail_closed lets no container start.
func (c Config) RefusesAll() error {
	if !c.FailClosed || c.Runtime == "" || RunsHooks(c.Runtime) || c.IsPlain(c.Runtime) {
		return nil
	}
	return hinterr.With(fmt.Errorf("fail_closed refuses every container: vfix does not know what the runtime %s mounts", c.Runtime),
		`if it brings no programs into containers, add its path to the configuration: "trusted_hooks": "PATH"`)
}
