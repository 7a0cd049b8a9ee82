// Containers that run and were started through vfix-runtime: their shims call it by its path
// to stop and remove them, and for exec.

package install

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

// taskFolders are where containerd keeps its running containers, NAMESPACE/ID: its own, docker's,
// k3s's and rke2's, k0s's. A file runtime there has the path that the shim calls (containerd,
// cmd/containerd-shim-runc-v2/runc/container.go, WriteRuntime).
var taskFolders = []string{
	"run/containerd/io.containerd.runtime.v2.task",
	"run/docker/containerd/daemon/io.containerd.runtime.v2.task",
	"run/k3s/containerd/io.containerd.runtime.v2.task",
	"run/k0s/containerd/io.containerd.runtime.v2.task",
}

// users names the containers whose shims call the program at a path.
func (t *tree) users(program string) ([]string, error) {
	var all []string
	for _, folder := range taskFolders {
		for _, namespace := range t.names(folder) {
			for _, id := range t.names(path.Join(folder, namespace)) {
				text, err := t.readText(path.Join(folder, namespace, id, "runtime"))
				if err != nil {
					return nil, err
				}
				if strings.TrimSpace(string(text)) == program {
					all = append(all, namespace+"/"+id)
				}
			}
		}
	}
	for _, pid := range t.names("proc") {
		if strings.Trim(pid, "0123456789") != "" {
			continue
		}
		line, err := fs.ReadFile(t.root.FS(), path.Join("proc", pid, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if name := conmonOf(line, program); name != "" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all, nil
}

// names lists a folder; none if it is missing.
func (t *tree) names(folder string) []string {
	at, err := t.resolve(folder)
	if err != nil {
		return nil
	}
	entries, err := fs.ReadDir(t.root.FS(), at)
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// conmonOf returns the container that a command line of conmon (podman's and CRI-O's shim) is
// for, "" if it does not call the program (conmon(8): -r, -n, -c).
func conmonOf(cmdline []byte, program string) string {
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimRight(cmdline, "\x00"), []byte{0}) {
		args = append(args, string(arg))
	}
	if len(args) == 0 || path.Base(args[0]) != "conmon" {
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
	if name := value("-n", "--name"); name != "" {
		return name
	}
	return value("-c", "--cid")
}

// spare decides what becomes of the link by which vfix is a runtime when it is to go: it goes
// where nobody calls it. With --force it leads to the real runtime then, so that containers that
// run can be stopped.
func (t *tree) spare(o Options, s *step, r *Result) error {
	users, err := t.users("/" + s.path)
	if err != nil || len(users) == 0 {
		return err
	}
	noun := "container that runs uses"
	if len(users) > 1 {
		noun = "containers that run use"
	}
	list := listed(users)
	if !o.Force {
		return hinterr.With(hinterr.Errorf(ErrConflict, "/%s: %d %s it: %s", s.path, len(users), noun, list),
			"stop them first, or use --force: a link to the real runtime stays for them")
	}
	real, err := t.realRuntime()
	if err != nil {
		return err
	}
	s.next, s.action = &content{link: real}, Replace
	r.Warnings = append(r.Warnings, fmt.Sprintf("/%s leads to %s now: %d %s it: %s; remove it when they have ended", s.path, real, len(users), noun, list))
	return nil
}

// listed names the first of some containers, and how many more there are.
func listed(names []string) string {
	const most = 5
	list := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// realRuntime is the path of the runtime that vfix-runtime wraps here.
func (t *tree) realRuntime() (string, error) {
	names := []string{"runc", "crun"}
	if text, err := t.readText(runtimeConfig); err == nil {
		if named := namedRuntime(text); named != "" {
			names = []string{named}
		}
	}
	for _, name := range names {
		if path.IsAbs(name) && t.exists(rel(name)) {
			return name, nil
		}
		for _, at := range bins(name) {
			if !strings.Contains(name, "/") && t.exists(at) {
				return "/" + at, nil
			}
		}
	}
	return "", hinterr.With(hinterr.Errorf(ErrConflict, "%s: not found, and containers that run need it", strings.Join(names, " or ")),
		"stop them first")
}
