// When vfix-runtime leaves a start to its hook: a container's mounts are made by the real runtime, and only when they
// are there can be seen which programs they bring. A hook costs one more process; a container whose mounts bring no
// programs needs none.

package ociruntime

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/starts"
)

// handedOn is the outcome of a start that the hook does, and records.
const handedOn starts.Outcome = "handed on"

// unseen says what may bring programs that cannot be seen yet; "" for nothing.
func (k *container) unseen() string {
	if k.pid != 0 {
		return ""
	}
	for _, n := range k.spec.Linux.Namespaces {
		if n.Type == "mount" && n.Path != "" {
			return "another process's mount namespace, not examined"
		}
	}
	for _, m := range k.mounts {
		if m.isBelow(k.root.Path) && !slices.Contains(kernelOnly, m.fstype) {
			return fmt.Sprintf("%s: a mount below the root filesystem, not examined", m.point)
		}
	}
	for _, m := range k.spec.Mounts {
		if !k.isOwn(m) && brings(m, k.bundle) {
			return fmt.Sprintf("%s: a mount of the container, not examined", m.Destination)
		}
	}
	for _, h := range slices.Concat(k.spec.Hooks.Prestart, k.spec.Hooks.CreateRuntime) {
		if !k.trusts(h) {
			return fmt.Sprintf("hook %s: what it may mount is not examined", h.Path)
		}
	}
	return ""
}

// covered says which file with something to patch is at a place where the runtime mounts something, by way of a
// symlink: an earlier mount may hide that, and then the mount is elsewhere. "" for none.
func (k *container) covered(found *scanned) string {
	var names [][]byte
	for _, h := range found.Legacy {
		names = append(names, h.Names...)
	}
	for _, u := range found.Unread {
		names = append(names, u.Name)
	}
	for _, name := range names {
		if isBelow(string(name), k.doubtful) {
			return fmt.Sprintf("/%s: where the container has a mount, not examined", name)
		}
	}
	return ""
}

// noteLater notes what the root does not show: programs in the memory of a checkpoint, and what hooks mount that the
// runtime executes later.
func (k *container) noteLater(cmd *command) {
	if cmd.name == "restore" {
		k.rec.Add("", "restore: what the processes of a checkpoint have in memory is not examined")
	}
	if handed := handedOver(cmd); handed != "" {
		k.rec.Add("", handed+": a descriptor that the caller hands to the container, not examined")
	}
	later := slices.Concat(k.spec.Hooks.CreateContainer, k.spec.Hooks.Poststart)
	if k.pid != 0 {
		last := 0
		for i, h := range k.spec.Hooks.CreateRuntime {
			if isHook(h) {
				last = i + 1
			}
		}
		later = append(later, k.spec.Hooks.CreateRuntime[last:]...)
	}
	for _, h := range later {
		if !k.trusts(h) {
			k.rec.Add("", fmt.Sprintf("hook %s: it runs after vfix has looked, and may mount programs (trusted_hooks)", h.Path))
		}
	}
}

// trusts reports whether a hook brings no programs into a container: vfix's own; docker's, which sets up the network
// (libnetwork, "libnetwork-setkey", by way of /proc/PID/exe); those that the operator names.
func (k *container) trusts(h specHook) bool {
	dockers, _ := filepath.Match("/proc/[0-9]*/exe", h.Path)
	return isHook(h) || isAdded(h) || dockers && len(h.Args) > 0 && h.Args[0] == "libnetwork-setkey" ||
		slices.Contains(strings.Split(k.TrustedHooks, ","), h.Path)
}

// isHook reports whether a hook is vfix's own. Hooks are programs of the node: only its owner names them.
func isHook(h specHook) bool {
	n := len(h.Args)
	return n > 1 && strings.HasPrefix(filepath.Base(h.Args[0]), "vfix-") && h.Args[n-1] == HookCommand
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

// handedOver is the path of the first descriptor that leads to programs among those that the container's first process
// gets from the caller; "" for none. Only standard input and output, and those that --preserve-fds and $LISTEN_FDS name
// (runc, libcontainer/process.go, ExtraFiles), stay open when that process executes its program. A hook sees them in it.
func handedOver(c *command) string {
	const first = 3
	listen, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	dir, last := "/proc/self/fd", first+listen+c.fds
	if c.pid != 0 {
		dir, last = fmt.Sprintf("/proc/%d/fd", c.pid), math.MaxInt
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return dir
	}
	for _, e := range all {
		name := filepath.Join(dir, e.Name())
		if fd, _ := strconv.Atoi(e.Name()); fd < last && holdsProgram(name) && !closes(name) {
			path, _ := os.Readlink(name)
			return cmp.Or(path, name)
		}
	}
	return ""
}

// closes reports whether a process closes a descriptor when it executes a program.
func closes(name string) bool {
	dir, fd := filepath.Split(name)
	flags, _ := rootfs.Fdinfo(filepath.Join(dir, "../fdinfo", fd), "flags")
	n, err := strconv.ParseUint(flags, 8, 32)
	return err == nil && n&unix.O_CLOEXEC != 0
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

// plainRuntime reports whether the runtime makes of config.json what is in it. Others (nvidia-container-runtime) add
// mounts; as the hook, vfix sees them.
func (k *container) plainRuntime() bool {
	return k.pid != 0 || slices.Contains([]string{"runc", "crun", "youki"}, filepath.Base(k.rec.Runtime))
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

// hookOf is the hook that goes on with a command as another one, HookCommand or startedCommand.
func hookOf(c *command, as, start, runtime string, timeout time.Duration) ([]specHook, error) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	args := []string{"vfix-runtime", startOption, start, "--runtime", runtime}
	const path = true
	for _, o := range []struct {
		name, value string
		path        bool
	}{
		{"vfix-config", c.configFile, path}, {"container-config", c.spec, path}, {"root", c.root, path}, {"log", c.log, path},
		{"cache-dir", c.cacheDir, false}, {"log-format", c.logFormat, false},
	} {
		if o.value == "" {
			continue
		}
		if o.path {
			if o.value, err = filepath.Abs(o.value); err != nil {
				return nil, err
			}
		}
		args = append(args, "--"+o.name, o.value)
	}
	if c.failClosed {
		args = append(args, "--fail-closed")
	}
	return []specHook{{Path: self, Args: append(args, as), Timeout: int(timeout.Seconds())}}, nil
}
