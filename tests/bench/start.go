// The start of a container through vfix-runtime.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// state is where vfix-runtime keeps its cache.
const state = "/var/lib/vfix"

// start compares runc's create, alone and with vfix-runtime in front of it, on an overlay: cold has an empty
// cache, warm one that has seen the layer.
func (b *bench) start() error {
	runc, err := exec.LookPath("runc")
	if err != nil || os.Geteuid() != 0 {
		fmt.Print("The start of a container: not measured, it needs root and runc\n\n")
		return nil
	}
	runtime.LockOSThread() // and never unlocked: the thread has mounts of its own
	c := &container{dir: filepath.Join(b.dir, "container")}
	if err := c.prepare(); err != nil {
		return err
	}
	var commands []command
	for _, cache := range []string{"warm", "cold"} {
		commands = append(commands, b.variants(func(vfix, name string) command {
			return c.command(name+", "+cache, filepath.Join(filepath.Dir(vfix), "vfix-runtime"))
		})...)
	}
	return b.compare("runc create on an overlay of /usr/lib", append(commands, c.command("runc", runc))...)
}

// container is one bundle, whose overlay is new for each run.
type container struct{ dir string }

func (c *container) path(name string) string { return filepath.Join(c.dir, name) }

// command is a create by the program; with a cold cache, if its name says so.
func (c *container) command(name, program string) command {
	prepare := func() error {
		if strings.HasSuffix(name, "cold") {
			if err := os.RemoveAll(c.path(name)); err != nil {
				return err
			}
		}
		return c.mount(c.path(name))
	}
	return command{name: name, before: prepare, after: c.remove,
		args: []string{program, "--root", c.path("runc"), "create", "--bundle", c.dir, "bench"}}
}

// prepare makes the layer and the bundle, and gives the thread a mount namespace of its own.
func (c *container) prepare() error {
	lower := c.path("lower/usr")
	if err := os.MkdirAll(lower, 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"cp", "-a", "/usr/lib", lower}, {"cp", affected, c.path("lower")}, {"cp", "/bin/busybox", c.path("lower/sh")}, {"runc", "spec", "-b", c.dir},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w: %s", args, err, out)
		}
	}
	if err := c.configure(); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(state, 0o755), os.MkdirAll(c.path("rootfs"), 0o755)); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
}

// configure makes runc's default configuration one of a container without a terminal and network.
func (c *container) configure() error {
	text, err := os.ReadFile(c.path("config.json"))
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	process := spec["process"].(map[string]any)
	process["terminal"], process["args"] = false, []string{"/sh", "-c", "exit"}
	spec["root"] = map[string]any{"path": "rootfs", "readonly": false}
	if text, err = json.Marshal(spec); err != nil {
		return err
	}
	return os.WriteFile(c.path("config.json"), text, 0o600)
}

// mount mounts the layer below an empty one, and the directory with the cache.
func (c *container) mount(cache string) error {
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(cache, state, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	for _, name := range []string{"upper", "work"} {
		if err := errors.Join(os.RemoveAll(c.path(name)), os.Mkdir(c.path(name), 0o755)); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", c.path("lower"), c.path("upper"), c.path("work"))
	return unix.Mount("overlay", c.path("rootfs"), "overlay", 0, options)
}

// remove deletes the container and its overlay.
func (c *container) remove() error {
	out, err := exec.Command("runc", "--root", c.path("runc"), "delete", "--force", "bench").CombinedOutput()
	if err != nil {
		return fmt.Errorf("runc delete: %w: %s", err, out)
	}
	return errors.Join(unix.Unmount(c.path("rootfs"), 0), unix.Unmount(state, 0))
}
