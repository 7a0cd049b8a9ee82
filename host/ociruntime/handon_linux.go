// When vfix-runtime leaves a start to its hook: a container's mounts are made by the real runtime, and only when they
// are there can be seen which programs they bring. A hook costs one more process; a container whose mounts bring no
// programs needs none.

package ociruntime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
)

// handedOn is the outcome of a start that the hook does, and records.
const handedOn starts.Outcome = "handed on"

// unseen says which mount may bring programs that cannot be seen yet; "" for none.
func (k *container) unseen() string {
	if k.pid != 0 {
		return ""
	}
	for _, m := range k.mounts {
		if m.point != k.root.Path && !slices.Contains(kernelOnly, m.fstype) {
			return fmt.Sprintf("%s: a mount below the root filesystem, not examined", m.point)
		}
	}
	for _, m := range k.spec.Mounts {
		if !k.isOwn(m) && brings(m, k.bundle) {
			return fmt.Sprintf("%s: a mount of the container, not examined", m.Destination)
		}
	}
	return ""
}

// brings reports whether a mount of config.json may bring programs into the container.
func brings(m specMount, bundle string) bool {
	if slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind") || m.Type == "bind" {
		source := m.Source
		if !filepath.IsAbs(source) {
			source = filepath.Join(bundle, source)
		}
		return holdsProgram(source)
	}
	if m.Type == "tmpfs" {
		return slices.Contains(m.Options, "tmpcopyup")
	}
	return !slices.Contains(kernelOnly, m.Type)
}

// holdsProgram reports whether what is at a path is a program, or may have some in it.
func holdsProgram(name string) bool {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return !errors.Is(err, unix.ENOENT) // the runtime does not start such a container
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return true
		}
		defer f.Close()
		elf, err := isELF(f)
		return elf || err != nil
	case unix.S_IFDIR:
		return true
	}
	return false // a device, a socket
}

// hooking are how the names of runtimes begin that are known to execute hooks, with the container's mounts in a
// namespace of this machine.
var hooking = []string{"runc", "crun", "youki", "nvidia-container-runtime"}

// hookable reports whether the hook can do the work: mounts are attached by descriptor (Linux 5.12), in a mount
// namespace that is the container's alone, by root.
func (k *container) hookable(c *command) bool {
	known := slices.ContainsFunc(hooking, func(name string) bool { return strings.HasPrefix(filepath.Base(k.rec.Runtime), name) })
	return k.spec.hasOwnMounts() && known && c.name != "restore" && !policy.Rootless() &&
		!errors.Is(unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{}), unix.ENOSYS)
}

// hookOf is the hook that goes on with a command.
func hookOf(c *command, runtime string, timeout time.Duration) (*specHook, error) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	args := []string{"vfix-runtime", handedBy, runtime}
	for _, o := range []struct{ name, value string }{{"vfix-config", c.configFile}, {"container-config", c.spec}, {"log", c.log}} {
		if o.value == "" {
			continue
		}
		path, err := filepath.Abs(o.value)
		if err != nil {
			return nil, err
		}
		args = append(args, "--"+o.name, path)
	}
	for _, o := range []struct{ name, value string }{{"cache-dir", c.cacheDir}, {"log-format", c.logFormat}} {
		if o.value != "" {
			args = append(args, "--"+o.name, o.value)
		}
	}
	if c.failClosed {
		args = append(args, "--fail-closed")
	}
	return &specHook{Path: self, Args: append(args, HookCommand), Timeout: int(timeout.Seconds())}, nil
}
