// Stopped containers that name the runtime: an engine that no longer knows it cannot start them, and those
// that restart by themselves stay down after the next boot. For them uninstall keeps the runtime's name, and
// replaces its program by a link to the real runtime.

package install

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// databases are the places where engines keep containers, with their content if one names the runtime. A removed entry
// of SQLite may still be in its free pages.
var databases = map[Engine][]string{
	// podman, libpod/sqlite_state.go and boltdb_state.go: JSON with ContainerConfig.OCIRuntime.
	Podman: {
		"var/lib/containers/storage/db.sql", "var/lib/containers/storage/libpod/bolt_state.db",
		"home/*/.local/share/containers/storage/db.sql", "home/*/.local/share/containers/storage/libpod/bolt_state.db",
	},
	// containerd, metadata/buckets.go: the runtime's options have its path. nerdctl's are there as well.
	Containerd: {"var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"},
}

// waiting names the containers of an engine that name the runtime.
func (t *tree) waiting(e Engine, name, program string) (all []string) {
	if e == Docker {
		return t.waitingDocker(name)
	}
	needle := fmt.Sprintf(`"runtime":%q`, name)
	if e == Containerd {
		needle = program
	}
	for _, pattern := range databases[e] {
		files := []string{pattern}
		if home, rest, ok := strings.Cut(pattern, "/*/"); ok {
			files = nil
			for _, user := range t.names(home) {
				files = append(files, path.Join(home, user, rest))
			}
		}
		for _, file := range files {
			// The log of changes that SQLite has not yet moved to the database is in the other file (sqlite.org, wal.html).
			if t.holds(file, needle) || t.holds(file+"-wal", needle) {
				all = append(all, "in /"+file)
			}
		}
	}
	return all
}

// waitingDocker reads what dockerd keeps of each container (moby, container/container.go): its HostConfig says which
// runtime it was created with, also if that was the default.
func (t *tree) waitingDocker(name string) (all []string) {
	root := "var/lib/docker"
	var daemon struct {
		Root string `json:"data-root"`
	}
	if t.decode(engines[Docker].config, &daemon); path.IsAbs(daemon.Root) {
		root = rel(daemon.Root)
	}
	for _, id := range t.names(path.Join(root, "containers")) {
		var host struct {
			Runtime       string
			RestartPolicy struct{ Name string }
		}
		var config struct{ Name string }
		t.decode(path.Join(root, "containers", id, "hostconfig.json"), &host)
		if host.Runtime != name {
			continue
		}
		t.decode(path.Join(root, "containers", id, "config.v2.json"), &config)
		container := cmp.Or(strings.TrimPrefix(config.Name, "/"), id[:min(len(id), 12)])
		if p := host.RestartPolicy.Name; p != "" && p != "no" {
			container += " (restart: " + p + ")"
		}
		all = append(all, container)
	}
	return all
}

// decode reads a JSON file of an engine; of one that cannot be read, nothing.
func (t *tree) decode(name string, to any) {
	text, _ := t.look(name)
	_ = json.Unmarshal(text, to)
}

// holds reports whether a file contains a text; a Bolt database, in an entry that was not removed.
func (t *tree) holds(name, text string) bool {
	f, err := t.open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for kept := 0; ; {
		n, err := io.ReadFull(f, buf[kept:])
		if bytes.Contains(buf[:kept+n], []byte(text)) {
			return !removed(f, text)
		}
		if err != nil {
			return false
		}
		kept = copy(buf, buf[len(buf)-len(text):])
	}
}

// removed reports whether a file is a Bolt database that has a text in free pages alone. The engine that runs has
// locked the file, so a copy is read; of one that cannot be read, the answer is false.
func removed(f *os.File, text string) (is bool) {
	temp, err := os.CreateTemp("", "vfix-database-")
	if err != nil {
		return false
	}
	defer os.Remove(temp.Name())
	_, err = io.Copy(temp, io.NewSectionReader(f, 0, math.MaxInt64))
	if errors.Join(err, temp.Close()) != nil {
		return false
	}
	defer func() {
		if recover() != nil { // bbolt, of a page that the engine changed meanwhile
			is = false
		}
	}()
	db, err := bbolt.Open(temp.Name(), 0, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return false
	}
	defer db.Close()
	found := errors.New("found")
	var search func(b *bbolt.Bucket) error
	search = func(b *bbolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return search(b.Bucket(k))
			}
			if bytes.Contains(v, []byte(text)) {
				return found
			}
			return nil
		})
	}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return search(b) })
	})
	return err == nil
}

// keepFor finds the engines with waiting containers, and says what is kept for them; with Force, nothing is kept.
func (t *tree) keepFor(o Options, r *Result) map[Engine]bool {
	all := map[Engine]bool{}
	i := slices.IndexFunc(t.old.Files, func(f record) bool { return f.Kind == program && path.Base(f.Path) == runtimeName })
	if i < 0 {
		return all
	}
	runtime := t.old.Files[i]
	for _, e := range r.Engines {
		waiting := t.waiting(e, runtime.Name, "/"+runtime.Path)
		if len(waiting) == 0 {
			continue
		}
		all[e] = !o.Force
		then := "they do not start any more: create them again without it"
		if !o.Force {
			then = fmt.Sprintf("so that they start, unpatched, the runtime stays, and /%s becomes a link to the real one; "+
				"create them again without it, then run 'vfix uninstall' again (with --force it is removed at once)", runtime.Path)
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s: containers name the runtime %s: %s; %s", e, runtime.Name, listed(waiting), then))
	}
	return all
}

// leave plans the rest of a file for containers that wait: the runtime's entry, which is no longer the default, or a
// link to the real runtime. nil says that nothing of it is needed.
func (t *tree) leave(rec record, waiting map[Engine]bool) *step {
	needed := func(e Engine) bool { return waiting[e] && (e != Containerd || rec.Kind == program) }
	now := t.read(rec.Path)
	if now == nil || !slices.ContainsFunc(rec.Engines, needed) {
		return nil
	}
	left := rec
	left.Engines = without(rec.Engines, func(e Engine) bool { return !waiting[e] })
	s := &step{path: rec.Path, now: now, next: now, rec: &left, action: TakeOut}
	switch {
	case rec.Kind == program && path.Base(rec.Path) == runtimeName:
		s.next, s.action = &content{link: t.realRuntime()}, Replace
		left.After = hashOf(s.next)
		return s
	case rec.Kind == program || rec.Path == runtimeConfig || now.link != "":
		return nil
	case rec.Kind == member:
		var chosen []value
		left.Set = nil
		for _, v := range rec.Set {
			if len(v.Path) == 1 { // default-runtime
				chosen = append(chosen, v)
			} else {
				left.Set = append(left.Set, v)
			}
		}
		data, _, err := takeMembers("/"+rec.Path, now.data, t.before(&rec).bytes(), chosen)
		t.failed(err)
		s.next = &content{data: data, meta: now.meta}
	default: // podman's, see planPodman
		s.next = &content{data: bytes.Replace(now.data, []byte(podmanDefault(rec.Name)), nil, 1), meta: now.meta}
	}
	if hashOf(now) == rec.After { // otherwise it counts as changed by others
		left.After = hashOf(s.next)
	}
	return s
}
