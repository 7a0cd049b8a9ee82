package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// bundle is an OCI bundle that a row makes hostile.
type bundle struct {
	dir, root, host, cache, id string
	spec                       map[string]any
	config                     map[string]any           // beside the usual one
	text                       func(text []byte) []byte // changes the text of config.json
	ready                      func()                   // called before runc is
	after                      func(is result) string   // what is wrong when it is over
	args, exec                 []string                 // of runc; of the program that runc exec starts afterwards
	environ                    []string                 // of runc; nil for the usual one
	files                      []*os.File
	stdin                      *os.File
	via                        string // the runtime, if it is not the usual one
	only                       string // door
	undo                       []func()
}

var number atomic.Int64

// usual is what "runc spec" writes.
var usual = sync.OnceValue(func() []byte {
	dir, err := os.MkdirTemp(*work, "spec")
	check(err)
	cmd := exec.Command("runc", "spec")
	cmd.Dir = dir
	check(cmd.Run())
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	check(err)
	return text
})

// newBundle makes the bundle of a row: a root filesystem with a shell, which starts /usr/bin/clock, and an empty
// directory of the host.
func newBundle(r row) *bundle {
	n := number.Add(1)
	b := &bundle{dir: filepath.Join(*work, fmt.Sprint(n)), id: fmt.Sprintf("vfix-starts-%d-%d", os.Getpid(), n)}
	b.root, b.host, b.cache = filepath.Join(b.dir, "rootfs"), filepath.Join(b.dir, "host"), filepath.Join(b.dir, "cache")
	for _, d := range []string{"bin", "proc", "dev", "sys", "usr/bin", "data", "tmp"} {
		b.mkdir(b.root, d)
	}
	b.mkdir(b.host)
	b.copy("busybox", b.root, "bin/busybox")
	check(json.Unmarshal(usual(), &b.spec))
	process := b.at("process")
	process["terminal"] = false
	delete(b.at("linux"), "resources")
	b.run("/usr/bin/clock")
	b.undo = append(b.undo, func() {
		if _, err := os.Stat(filepath.Join("/run", *real, b.id)); err == nil { // it was not started in the foreground, or broke off
			_ = exec.Command(*real, "delete", "--force", b.id).Run()
		}
	})
	r.make(b)
	return b
}

// end removes the bundle.
func (b *bundle) end() {
	for i := len(b.undo) - 1; i >= 0; i-- {
		b.undo[i]()
	}
	_ = os.RemoveAll(b.dir)
}

// at is the object of config.json at a path.
func (b *bundle) at(path ...string) map[string]any {
	of := b.spec
	for _, name := range path {
		inner, _ := of[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
			of[name] = inner
		}
		of = inner
	}
	return of
}

func (b *bundle) run(args ...string) { b.at("process")["args"] = args }
func (b *bundle) sh(script string)   { b.run("/bin/busybox", "sh", "-c", script) }
func (b *bundle) env(v string)       { b.at("process")["env"] = []string{"PATH=/usr/bin:/bin", v} }
func (b *bundle) writable()          { b.at("root")["readonly"] = false }

// mount adds a mount of the container.
func (b *bundle) mount(at, kind, source string, options ...string) {
	mounts, _ := b.spec["mounts"].([]any)
	b.spec["mounts"] = append(mounts, map[string]any{"destination": at, "type": kind, "source": source, "options": options})
}
func (b *bundle) bind(at, source string, options ...string) {
	b.mount(at, "bind", source, append([]string{"bind"}, options...)...)
}

// hook adds one.
func (b *bundle) hook(kind, path string, args ...string) {
	hooks := b.at("hooks")
	all, _ := hooks[kind].([]any)
	hooks[kind] = append(all, map[string]any{"path": path, "args": args, "env": []string{"PATH=" + os.Getenv("PATH")}})
}

// script is a hook that runs a shell's commands in the container's mount namespace, or where hooks run.
func (b *bundle) script(kind, inside, text string) {
	path := filepath.Join(b.dir, "script-"+kind)
	check(os.WriteFile(path, []byte("#!/bin/sh\npid=$(sed 's/.*\"pid\": *\\([0-9]*\\).*/\\1/')\nexec >/dev/null 2>&1 </dev/null\n"+inside+" sh -ec '"+text+"'\n"), 0o755))
	b.hook(kind, path, "script")
}

const enter = "exec nsenter -t $pid -m"

// legacy puts the program that calls the page at a path.
func (b *bundle) legacy(path ...string) { b.copy("clock", path...) }

// writing keeps this program from starting another one, which would have a file open to write until it is itself: nobody can
// execute such a file.
var writing = &syscall.ForkLock

func (b *bundle) copy(name string, path ...string) {
	from, err := os.Open(program(name))
	check(err)
	defer from.Close()
	to := filepath.Join(path...)
	b.mkdir(filepath.Dir(to))
	writing.RLock()
	defer writing.RUnlock()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	check(err)
	_, err = io.Copy(f, from)
	check(err)
	check(f.Close())
}
func (b *bundle) mkdir(path ...string) string {
	at := filepath.Join(path...)
	check(os.MkdirAll(at, 0o755))
	return at
}
func (b *bundle) file(text string, path ...string) {
	at := filepath.Join(path...)
	b.mkdir(filepath.Dir(at))
	writing.RLock()
	defer writing.RUnlock()
	check(os.WriteFile(at, []byte(text), 0o755))
}
func (b *bundle) link(to string, path ...string) { check(os.Symlink(to, filepath.Join(path...))) }

// mounted mounts something on this machine until the bundle's end.
func (b *bundle) mounted(source, at, kind string, flags uintptr, data string) {
	check(unix.Mount(source, at, kind, flags, data))
	b.undo = append(b.undo, func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}
func (b *bundle) tmpfs(path ...string) string {
	at := b.mkdir(path...)
	b.mounted("tmpfs", at, "tmpfs", 0, "")
	return at
}

// layers makes directories of layers, and fills the last with the root that there is; overlay mounts them.
func (b *bundle) layers(names ...string) {
	b.tmpfs(b.dir, "layers")
	for _, n := range names {
		b.mkdir(b.layer(n))
	}
	b.mkdir(b.dir, "layers/upper")
	b.mkdir(b.dir, "layers/work")
	b.shell("cp -a rootfs/. " + b.layer(names[len(names)-1]))
}
func (b *bundle) layer(name string) string {
	return filepath.Join(b.dir, "layers/overlay2", strings.Repeat(name, 64), "diff")
}
func (b *bundle) overlay(options string, names ...string) {
	for i, n := range names {
		names[i] = b.layer(n)
	}
	b.overlayOf(options, strings.Join(names, ":"))
}
func (b *bundle) overlayOf(options, lower string) {
	layers := filepath.Join(b.dir, "layers")
	b.mounted("overlay", b.root, "overlay", 0, "lowerdir="+lower+",upperdir="+layers+"/upper,workdir="+layers+"/work"+options)
	b.writable()
}

// again mounts the overlay once more, after changes through the first.
func (b *bundle) again(change, first, second string, names ...string) {
	b.overlay(first, append([]string{}, names...)...)
	b.shell(change)
	check(unix.Unmount(b.root, 0))
	b.overlay(second, names...)
}

func (b *bundle) xattr(name, value string, path ...string) {
	check(unix.Setxattr(filepath.Join(path...), name, []byte(value), 0))
}

// shell runs a shell's commands in the bundle.
func (b *bundle) shell(text string) string {
	cmd := exec.Command("sh", "-ec", text)
	cmd.Dir = b.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		panic(fmt.Errorf("%s: %w: %s", text, err, out))
	}
	return strings.TrimSpace(string(out))
}

// namespaces is the container's list of them.
func (b *bundle) namespace(kind, path string) {
	all := b.at("linux")["namespaces"].([]any)
	for _, n := range all {
		if n := n.(map[string]any); n["type"] == kind {
			n["path"] = path
			return
		}
	}
	b.at("linux")["namespaces"] = append(all, map[string]any{"type": kind})
}

// users gives the container ids of its own.
func (b *bundle) users() {
	b.shell("chown -R 100000:100000 rootfs; chmod -R go+rX host")
	b.namespace("user", "")
	ids := []any{map[string]any{"containerID": 0, "hostID": 100000, "size": 65536}}
	b.at("linux")["uidMappings"], b.at("linux")["gidMappings"] = ids, ids
}

func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// idmapped is a mount of a directory in which each id is 100000 higher.
func (b *bundle) idmapped(dir, at string) {
	sleep := exec.Command("sleep", "60")
	sleep.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: 100000, Size: 65536}}, GidMappings: []syscall.SysProcIDMap{{HostID: 100000, Size: 65536}},
	}
	check(sleep.Start())
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", sleep.Process.Pid))
	check(err)
	defer ns.Close()
	_ = sleep.Process.Kill()
	_ = sleep.Wait()
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	check(err)
	defer unix.Close(tree)
	check(unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}))
	check(unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH))
	b.undo = append(b.undo, func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}
