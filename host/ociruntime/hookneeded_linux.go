// When vfix-runtime leaves a start to its hook: the real runtime makes a container's mounts, and only then is it
// visible which programs they bring. A hook costs one more process, so a container whose mounts bring no programs
// gets none.

package ociruntime

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
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
	"vfix.dev/vfix/internal/nodefile"
)

// handedOn is the outcome of a start that the hook does and records.
const handedOn starts.Outcome = "handed on"

// unseen returns the reason why the container may get programs that are not visible yet; "" if it cannot.
func (k *container) unseen() string {
	if k.pid != 0 {
		return k.notMade()
	}
	for _, m := range k.mounts {
		if m.isBelow(k.root.Path) && !slices.Contains(kernelOnly, m.FSType) {
			return fmt.Sprintf("%s: a mount below the root filesystem, not examined", m.Mountpoint)
		}
	}
	if k.elsewhere != "" {
		return fmt.Sprintf("%s: leads to another path, which another mount may cover: not examined", k.elsewhere)
	}
	for _, m := range k.spec.Mounts {
		if !k.isOwn(m) && k.brings(m) {
			return fmt.Sprintf("%s: a mount of the container, not examined", m.Destination)
		}
	}
	for _, d := range k.spec.Linux.Devices {
		if holdsProgram(d.Path) {
			return fmt.Sprintf("device %s: not one: what the runtime makes of it is not examined", d.Path)
		}
	}
	for _, h := range slices.Concat(k.spec.Hooks.Prestart, k.spec.Hooks.CreateRuntime) {
		if !k.trusts(h) {
			return fmt.Sprintf("hook %s: what it may mount is not examined", h.Path)
		}
	}
	// Other runtimes may add to config.json, as nvidia-container-runtime does.
	if r := k.rec.Runtime; !k.IsPlain(r) {
		return fmt.Sprintf("runtime %s: what it may mount is not examined (trusted_hooks)", r)
	}
	return ""
}

// notMade returns which mount of config.json the hook does not see: the runtime makes it later, or at another path.
// Only those that bring programs matter, and /proc, which nearly every container has.
func (k *container) notMade() string {
	for _, m := range k.spec.Mounts {
		if m.Type != "proc" && !k.brings(m) || slices.Contains(m.Options, "copy-symlink") { // of crun: it may make a symlink
			continue
		}
		below, inside := k.stripped(m.Destination)
		if !k.isMade(m.Destination) && !(inside && k.isMade(below)) {
			return fmt.Sprintf("%s: the runtime has not made this mount of config.json before the hook, or at another path: not examined", m.Destination)
		}
	}
	return ""
}

// isMade reports whether there is a mount at a destination in the root.
func (k *container) isMade(destination string) bool {
	real, err := k.root.Resolve(destination)
	place := filepath.Join(k.root.Path, real)
	return err == nil && slices.ContainsFunc(k.mounts, func(is mount) bool { return is.Mountpoint == place })
}

// noteLater notes sources of programs that the root does not show: the memory of a checkpoint, other programs that
// the runtime executes or calls later, and members of config.json that vfix does not know.
func (k *container) noteLater(cmd *command) {
	for _, member := range k.spec.unknown {
		k.rec.Add("", fmt.Sprintf("config.json: %s: not known to this version of vfix", member))
	}
	for _, name := range slices.Sorted(maps.Keys(k.spec.Annotations)) {
		what, value := strings.TrimPrefix(name, crunPrefix), k.spec.Annotations[name]
		if what != name && value != "" && !slices.Contains(crunAnnotations, what) && !k.Trusts(value) {
			k.rec.Add("", fmt.Sprintf("annotation %s=%s: its effect on the container is not examined (trusted_hooks)", name, value))
		}
	}
	for _, agent := range []string{k.spec.Linux.Seccomp.ListenerPath, k.runtimeEnv("RUN_OCI_SECCOMP_RECEIVER")} { // crun(1)
		if agent != "" && !k.Trusts(agent) {
			k.rec.Add("", fmt.Sprintf("seccomp agent %s: the files that it may give the container are not examined (trusted_hooks)", agent))
		}
	}
	for _, n := range k.spec.Linux.Namespaces {
		if n.Type == "mount" && n.Path != "" {
			k.rec.Add("", "another process's mount namespace, which may change")
		}
	}
	if k.restores(cmd) {
		k.rec.Add("", "restore: the memory of a checkpoint's processes is not examined")
	}
	if handed := k.handedOver(cmd); handed != "" {
		k.rec.Add("", handed+": a descriptor that the caller passes to the container, not examined")
	}
	later := slices.Concat(k.spec.Hooks.CreateContainer, k.spec.Hooks.StartContainer, k.spec.Hooks.Poststart)
	if k.pid != 0 {
		last := 0
		for i, h := range k.spec.Hooks.CreateRuntime {
			if isOwnHook(h) && parseArgs(h.Args[1:]).name == HookCommand {
				last = i + 1
			}
		}
		later = append(later, k.spec.Hooks.CreateRuntime[last:]...)
	}
	for _, h := range later {
		if !k.trusts(h) {
			k.rec.Add("", fmt.Sprintf("hook %s: it runs after vfix, and may mount programs (trusted_hooks)", h.Path))
		}
	}
}

// restores reports whether the runtime starts the container from a checkpoint: a hook sees that in its command line.
func (k *container) restores(cmd *command) bool {
	if k.pid == 0 {
		return cmd.name == "restore"
	}
	line, _ := nodefile.Text(fmt.Sprintf("/proc/%d/cmdline", os.Getppid()))
	return parseArgs(strings.Split(string(line)+"\x00", "\x00")[1:]).name == "restore"
}

// runtimeEnv returns a variable of the runtime's environment: this process becomes the runtime, or was started by
// it.
func (k *container) runtimeEnv(name string) string {
	if k.pid == 0 {
		return os.Getenv(name)
	}
	all, _ := nodefile.Text(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
	_, value, _ := strings.Cut("\x00"+string(all), "\x00"+name+"=")
	value, _, _ = strings.Cut(value, "\x00")
	return value
}

// crunAnnotations are those of crun(1), after crunPrefix, that bring no programs: others name a seccomp agent or a
// program that runs instead of the container's.
var crunAnnotations = strings.Fields("keep_original_groups pidfd_receiver seccomp_fail_unknown_syscall seccomp_bpf_data systemd.subgroup " +
	"systemd.force_cgroup_v1 delegate-cgroup mount_context_type hooks.stdout hooks.stderr")

const crunPrefix = "run.oci."

// trusts reports whether a hook brings no programs into a container: vfix's own, docker's for the network
// (libnetwork, "libnetwork-setkey"), which the running dockerd executes, and those that the operator lists.
func (k *container) trusts(h specHook) bool {
	if named, _ := filepath.Match("/proc/[0-9]*/exe", h.Path); named && len(h.Args) > 0 && h.Args[0] == "libnetwork-setkey" {
		program, _ := os.Readlink(h.Path)
		return strings.HasPrefix(filepath.Base(program), "dockerd") // and dockerd-ce
	}
	return isOwnHook(h) || k.Trusts(h.Path)
}

// tmpfsOptions are the options of an empty file system in memory; others (tmpcopyup) may fill it.
var tmpfsOptions = strings.Fields("ro rw suid nosuid dev nodev exec noexec sync async dirsync atime noatime diratime nodiratime relatime " +
	"norelatime strictatime nostrictatime private rprivate slave rslave size mode uid gid nr_inodes nr_blocks mpol huge noswap context")

// brings reports whether a mount of config.json may bring programs into the container.
func (k *container) brings(m specMount) bool {
	if slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind") || m.Type == "bind" {
		source := m.Source
		if !filepath.IsAbs(source) {
			source = filepath.Join(k.bundle, source)
		}
		return holdsProgram(source) || k.uncertainAt(source, k.machine) != ""
	}
	if m.Type == "tmpfs" {
		return slices.ContainsFunc(m.Options, func(o string) bool {
			name, _, _ := strings.Cut(o, "=")
			return !slices.Contains(tmpfsOptions, name)
		})
	}
	return !slices.Contains(kernelOnly, m.Type)
}

// handedOver returns the path of the first descriptor that leads to programs among those that the container's
// first process gets from the caller; "" for none. Only standard input and output, and the descriptors of
// --preserve-fds and $LISTEN_FDS (runc, libcontainer/process.go, ExtraFiles), stay open when that process executes
// its program. A hook sees these and some that are closed later: runc's own program, since 1.2
// (libcontainer/container_linux.go, safeExe), and crun's directories that the container has.
func (k *container) handedOver(c *command) string {
	const first = 3
	dir, last := "/proc/self/fd", first+count(os.Getenv("LISTEN_FDS"))+c.fds
	var runtime os.FileInfo
	if c.pid != 0 {
		dir, last = fmt.Sprintf("/proc/%d/fd", c.pid), math.MaxInt
		runtime, _ = os.Stat(fmt.Sprintf("/proc/%d/exe", c.pid))
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return dir
	}
	for _, e := range all {
		name := filepath.Join(dir, e.Name())
		if is, _ := os.Stat(name); os.SameFile(is, runtime) {
			continue
		}
		if fd, _ := strconv.Atoi(e.Name()); fd < last && holdsProgram(name) && !closes(name) && !k.isShown(name) {
			path, _ := os.Readlink(name)
			return cmp.Or(path, name)
		}
	}
	return ""
}

// isShown reports whether a descriptor of the container's first process leads to a directory that the root shows,
// with all of its mounts.
func (k *container) isShown(name string) bool {
	path, err := os.Readlink(name)
	below, inRoot := strings.CutPrefix(path+"/", k.root.Path+"/")
	if k.pid == 0 || err != nil || !inRoot {
		return false
	}
	fd, err := k.root.Name(strings.TrimSuffix(below, "/"))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var is, shown unix.Stat_t
	mount, err := rootfs.MountOf(fd)
	of, oerr := fdinfo(name, "mnt_id")
	return errors.Join(err, oerr, unix.Stat(name, &is), unix.Fstat(fd, &shown)) == nil && of == strconv.Itoa(mount) &&
		is.Dev == shown.Dev && is.Ino == shown.Ino && is.Mode&unix.S_IFMT == unix.S_IFDIR
}

// closes reports whether a process closes a descriptor when it executes a program.
func closes(name string) bool {
	flags, _ := fdinfo(name, "flags")
	n, err := strconv.ParseUint(flags, 8, 32)
	return err == nil && n&unix.O_CLOEXEC != 0
}

// fdinfo returns a member of /proc/PID/fdinfo/N for the path /proc/PID/fd/N.
func fdinfo(name, member string) (string, error) {
	dir, fd := filepath.Split(name)
	return rootfs.Fdinfo(filepath.Join(dir, "../fdinfo", fd), member)
}

// holdsProgram reports whether a path is a program, or may have programs in it.
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
		program, _, err := isProgram(f)
		return program || err != nil
	case unix.S_IFDIR:
		return true
	}
	return false // a device, a socket
}

// hookable reports whether the hook can do the work: it attaches mounts by descriptor (Linux 5.12), as root, in a
// mount namespace of the container alone.
func (k *container) hookable(c *command) bool {
	return k.spec.hasOwnMounts() && policy.RunsHooks(k.rec.Runtime) && c.name != "restore" && !policy.Rootless() &&
		!errors.Is(unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{}), unix.ENOSYS)
}

// hookOf returns the hook that continues a command as HookCommand or startedCommand.
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

// deleted is the end of the path of a program whose file was replaced (proc_pid_exe(5)).
const deleted = " (deleted)"

// isOwnHook reports whether a hook is this program: by its path, as the same file, or as a copy, which the NRI
// plugin makes.
func isOwnHook(h specHook) bool {
	if len(h.Args) == 0 {
		return false
	}
	if c := parseArgs(h.Args[1:]); c.name != HookCommand && c.name != startedCommand {
		return false
	}
	const self = "/proc/self/exe"
	if path, err := os.Readlink(self); err == nil && strings.TrimSuffix(path, deleted) == h.Path {
		return true // an upgrade may replace the file meanwhile
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
