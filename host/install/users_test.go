package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// Containers that do not run and name the runtime can be started after uninstall: as the real runtime starts them.
// When none is left, the next uninstall takes the rest back, byte for byte.
func TestUninstallUnderWaitingContainers(t *testing.T) {
	const id = "c0ffeec0ffeec0ffee"
	docker := func(runtime, policy string) map[string]string {
		return map[string]string{
			"data/containers/" + id + "/hostconfig.json": `{"Runtime": "` + runtime + `", "RestartPolicy": {"Name": "` + policy + `"}}`,
			"data/containers/" + id + "/config.v2.json":  `{"Name": "/web"}`,
		}
	}
	const podmanDB = "SQLite format 3\x00 {\"id\":\"x\",\"runtime\":\"vfix\"}"
	const metadata = "var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"
	for name, c := range map[string]struct {
		engine Engine
		files  map[string]string
		says   string // "" if nothing waits
		entry  bool   // stays in the engine's configuration
	}{
		"docker, stopped":          {Docker, docker("vfix", ""), "docker: containers name the runtime vfix: web;", true},
		"docker, restarts":         {Docker, docker("vfix", "unless-stopped"), "web (restart: unless-stopped);", true},
		"docker, another runtime":  {Docker, docker("runc", "always"), "", false},
		"docker, damaged":          {Docker, map[string]string{"data/containers/" + id + "/hostconfig.json": `{`}, "", false},
		"podman":                   {Podman, map[string]string{"var/lib/containers/storage/db.sql": podmanDB}, "in /var/lib/containers/storage/db.sql", true},
		"podman of before":         {Podman, map[string]string{"var/lib/containers/storage/libpod/bolt_state.db": strings.Repeat("x", 1<<20-9) + podmanDB}, "bolt_state.db", true},
		"podman, of a user":        {Podman, map[string]string{"home/u/.local/share/containers/storage/db.sql": podmanDB}, "in /home/u/", true},
		"podman, in the log":       {Podman, map[string]string{"var/lib/containers/storage/db.sql": "", "var/lib/containers/storage/db.sql-wal": podmanDB}, "db.sql", true},
		"podman, another runtime":  {Podman, map[string]string{"var/lib/containers/storage/db.sql": `{"runtime":"crun","name":"vfix"}`}, "", false},
		"containerd":               {Containerd, map[string]string{metadata: "\x00BinaryName/usr/local/bin/vfix-runtime\x00"}, "meta.db", false},
		"containerd, stopped":      {Containerd, map[string]string{metadata: boltDB(t, false)}, "meta.db", false},
		"containerd, removed":      {Containerd, map[string]string{metadata: boltDB(t, true)}, "", false},
		"containerd, without vfix": {Containerd, map[string]string{metadata: "/usr/bin/runc"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"usr/bin/runc": ""}
			for file, text := range machines[c.engine].files {
				files[file] = text
			}
			if c.engine == Docker {
				files["etc/docker/daemon.json"] = `{"data-root": "/data"}`
			}
			root := machine(t, files)
			before := snapshot(t, root)
			o := options(t, c.engine, root)
			o.Default = c.engine != Containerd
			r, err := Install(o)
			must(t, r, err)
			for file, text := range c.files {
				put(t, root, file, text)
			}
			file := machines[c.engine].file
			for range 2 { // again: nothing changes
				r, err = Uninstall(Options{Root: root})
				must(t, r, err)
				link, _ := os.Readlink(filepath.Join(root, "usr/local/bin/vfix-runtime"))
				text, _ := os.ReadFile(filepath.Join(root, file))
				entry := strings.Contains(string(text), "/usr/local/bin/vfix-runtime")
				if strings.Contains(strings.Join(r.Warnings, "\n"), c.says) != (c.says == "" || link != "") || (link == "/usr/bin/runc") != (c.says != "") || entry != c.entry {
					t.Fatalf("got a link to %q, %q, %s", link, r.Warnings, text)
				}
				if strings.Contains(string(text), "default-runtime") || strings.Contains(string(text), `runtime = "vfix"`) {
					t.Errorf("still the default: %s", text)
				}
				if _, err := os.Stat(filepath.Join(root, "usr/local/bin/vfix")); err == nil {
					t.Error("vfix is there")
				}
			}
			for file := range c.files {
				os.RemoveAll(filepath.Join(root, strings.Split(file, "/")[0], "containers"))
				os.RemoveAll(filepath.Join(root, strings.Split(file, "/")[0], "u"))
				os.RemoveAll(filepath.Join(root, "var/lib/containers"))
				os.RemoveAll(filepath.Join(root, "var/lib/containerd"))
			}
			for _, dir := range []string{"data", "home", "var/lib", "var"} {
				os.Remove(filepath.Join(root, dir)) // if it is empty
			}
			r, err = Uninstall(Options{Root: root})
			must(t, r, err)
			for _, dir := range []string{"var/lib", "var"} {
				os.Remove(filepath.Join(root, dir))
			}
			if got := snapshot(t, root); got != before {
				t.Errorf("left: got %s, want %s", got, before)
			}
		})
	}
	// With --force nothing stays.
	root := machine(t, map[string]string{"usr/sbin/dockerd": "", "usr/bin/runc": "", "var/lib/docker/containers/x/hostconfig.json": `{"Runtime": "vfix"}`})
	before := snapshot(t, root)
	r, err := Install(options(t, Docker, root))
	must(t, r, err)
	r, err = Uninstall(Options{Root: root, Force: true})
	must(t, r, err)
	if got := snapshot(t, root); got != before || !strings.Contains(strings.Join(r.Warnings, " "), "x; they do not start any more") {
		t.Errorf("got %s, %q", got, r.Warnings)
	}
	// While one runs, uninstall refuses as before.
	r, err = Install(options(t, Docker, root))
	must(t, r, err)
	put(t, root, "run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby/c2/runtime", "/usr/local/bin/vfix-runtime")
	if r, err := Uninstall(Options{Root: root}); !errors.Is(err, ErrConflict) {
		t.Errorf("got %+v, %v", r, err)
	}
}

// Uninstall refuses while shims call vfix-runtime, and names their containers; with --force a link
// to the real runtime takes its place.
func TestUninstallUnderContainers(t *testing.T) {
	const task = "run/containerd/io.containerd.runtime.v2.task/moby/c1/runtime"
	for name, c := range map[string]struct {
		file, text string
		user       string // "" if it is nobody's
	}{
		"containerd, docker":    {task, "/usr/local/bin/vfix-runtime", "moby/c1"},
		"docker's own":          {"run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby/c2/runtime", "/usr/local/bin/vfix-runtime\n", "moby/c2"},
		"podman":                {"proc/12/cmdline", "/usr/bin/conmon\x00--api-version\x001\x00-c\x00abc\x00-r\x00/usr/local/bin/vfix-runtime\x00-n\x00web\x00", "web"},
		"CRI-O":                 {"proc/12/cmdline", "conmon\x00-c\x00abc\x00--runtime=/usr/local/bin/vfix-runtime\x00", "abc"},
		"another runtime":       {task, "/usr/bin/runc", ""},
		"another conmon":        {"proc/12/cmdline", "conmon\x00-c\x00abc\x00-r\x00/usr/bin/runc\x00", ""},
		"another program":       {"proc/12/cmdline", "less\x00-r\x00/usr/local/bin/vfix-runtime\x00-c\x00abc\x00", ""},
		"what is not a process": {"proc/self/cmdline", "conmon\x00-c\x00abc\x00-r\x00/usr/local/bin/vfix-runtime\x00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := machine(t, map[string]string{"usr/sbin/dockerd": "", "usr/bin/runc": "", "etc/docker/daemon.json": daemonJSON})
			o := options(t, Docker, root)
			r, err := Install(o)
			must(t, r, err)
			installed := snapshot(t, root)
			put(t, root, c.file, c.text)
			r, err = Uninstall(Options{Root: root})
			if c.user == "" {
				must(t, r, err)
				return
			}
			if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "/usr/local/bin/vfix-runtime: 1 container that runs uses it: "+c.user) {
				t.Fatalf("got %+v, %v", r, err)
			}
			os.RemoveAll(filepath.Join(root, strings.Split(c.file, "/")[0]))
			if got := snapshot(t, root); got != installed {
				t.Errorf("it changed something: got %s, want %s", got, installed)
			}
			put(t, root, c.file, c.text)
			r, err = Uninstall(Options{Root: root, Force: true})
			must(t, r, err)
			link := filepath.Join(root, "usr/local/bin/vfix-runtime")
			if to, err := os.Readlink(link); to != "/usr/bin/runc" || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], c.user) {
				t.Errorf("got a link to %q, %v, %q", to, err, r.Warnings)
			}
			if got := get(t, root, "etc/docker/daemon.json"); got != daemonJSON {
				t.Errorf("the engine's configuration: got %s", got)
			}
			// Installed again and uninstalled when they have ended, the link is as it was left.
			r, err = Install(o)
			must(t, r, err)
			os.RemoveAll(filepath.Join(root, strings.Split(c.file, "/")[0]))
			r, err = Uninstall(Options{Root: root})
			must(t, r, err)
			if to, err := os.Readlink(link); to != "/usr/bin/runc" {
				t.Errorf("got a link to %q, %v", to, err)
			}
		})
	}
	// No real runtime, no way out.
	root := machine(t, map[string]string{"usr/sbin/dockerd": "", task: "/usr/local/bin/vfix-runtime"})
	r, err := Install(options(t, Docker, root))
	must(t, r, err)
	if r, err := Uninstall(Options{Root: root, Force: true}); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "runc or crun: not found") {
		t.Errorf("got %+v, %v", r, err)
	}
}

// boltDB is a database as containerd's, with a container that names the runtime, or named it until it was removed.
func boltDB(t *testing.T, removed bool) string {
	name := filepath.Join(t.TempDir(), "meta.db")
	db, err := bbolt.Open(name, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	change := func(do func(b *bbolt.Bucket) error) {
		if err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("v1"))
			return errors.Join(err, do(b))
		}); err != nil {
			t.Fatal(err)
		}
	}
	change(func(b *bbolt.Bucket) error {
		c, err := b.CreateBucket([]byte("containers"))
		return errors.Join(err, c.Put([]byte("options"), []byte(strings.Repeat("x", 3000)+"/usr/local/bin/vfix-runtime")))
	})
	if removed {
		change(func(b *bbolt.Bucket) error { return b.DeleteBucket([]byte("containers")) })
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(text), "vfix-runtime") {
		t.Fatal(err, "the entry's bytes are gone")
	}
	return string(text)
}
