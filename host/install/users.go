// Running containers that were started through vfix-runtime: their shims call it by its path to stop and
// remove them, and for exec.

package install

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/host/policy"
)

// taskDirs are where containerd keeps its running containers, NAMESPACE/ID: its own, docker's,
// k3s's and rke2's, k0s's. A file runtime there has the path that the shim calls (containerd,
// cmd/containerd-shim-runc-v2/runc/container.go, WriteRuntime).
var taskDirs = []string{
	"run/containerd/io.containerd.runtime.v2.task",
	"run/docker/containerd/daemon/io.containerd.runtime.v2.task",
	"run/k3s/containerd/io.containerd.runtime.v2.task",
	"run/k0s/containerd/io.containerd.runtime.v2.task",
}

// users names the containers whose shims call the program at a path.
func (t *tree) users(program string) (all []string) {
	for _, dir := range taskDirs {
		for _, namespace := range t.names(dir) {
			for _, id := range t.names(path.Join(dir, namespace)) {
				if text := t.text(path.Join(dir, namespace, id, "runtime")); strings.TrimSpace(string(text)) == program {
					all = append(all, namespace+"/"+id)
				}
			}
		}
	}
	for _, pid := range t.names("proc") {
		if strings.Trim(pid, "0123456789") != "" {
			continue
		}
		line, _ := fs.ReadFile(t.root.FS(), path.Join("proc", pid, "cmdline")) // none if it has ended
		if name := conmonOf(line, program); name != "" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// conmonOf returns the container that a command line of conmon (podman's and CRI-O's shim) is
// for, "" if it does not call the program (conmon(8): -r, -n, -c).
func conmonOf(cmdline []byte, program string) string {
	args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	if path.Base(args[0]) != "conmon" {
		return ""
	}
	value := func(short, long string) string {
		for i, a := range args {
			if v, ok := strings.CutPrefix(a, long+"="); ok {
				return v
			}
			if (a == short || a == long) && i+1 < len(args) {
				return args[i+1]
			}
		}
		return ""
	}
	if value("-r", "--runtime") != program {
		return ""
	}
	return cmp.Or(value("-n", "--name"), value("-c", "--cid"))
}

// spare decides what happens at uninstall to the link by which vfix is a runtime: it is removed if nobody
// calls it. Otherwise, with --force, it leads to the real runtime, so that running containers can be
// stopped.
func (t *tree) spare(o Options, s *step, r *Result) {
	users := t.users("/" + s.path)
	if len(users) == 0 {
		return
	}
	noun := "container that runs uses"
	if len(users) > 1 {
		noun = "containers that run use"
	}
	list := listed(users)
	if !o.Force {
		t.refuse(ErrConflict, "stop them first, or use --force: a link to the real runtime stays for them", "/%s: %d %s it: %s", s.path, len(users), noun, list)
		return
	}
	real := t.realRuntime()
	s.next, s.action = &content{link: real}, Replace
	r.Warnings = append(r.Warnings, fmt.Sprintf("/%s leads to %s now: %d %s it: %s; remove it when they have ended", s.path, real, len(users), noun, list))
}

// listed names the first containers of a list, and how many more there are.
func listed(names []string) string {
	const most = 5
	list := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// realRuntime is the path of the runtime that vfix-runtime wraps here.
func (t *tree) realRuntime() string {
	names := []string{"runc", "crun"}
	text, _ := t.look(runtimeConfig)
	if c, _ := policy.Parse(text); c.Runtime != "" {
		names = []string{c.Runtime}
	}
	real := t.find(names)
	if real == "" {
		t.refuse(ErrConflict, "stop them first", "%s: not found, and containers that run need it", strings.Join(names, " or "))
	}
	return real
}
