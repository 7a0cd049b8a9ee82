package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"vfix.dev/vfix/host/starts"
)

// stories start a bundle more than once, or look at something else than a row does.
var stories = []story{
	{"not started", "volume, run", func() []string { return notStarted(true, "wrapper") }},
	{"not started", "volume, create and start", func() []string { return notStarted(true, "created") }},
	{"not started", "run", func() []string { return notStarted(false, "wrapper") }},
	{"not started", "create and start", func() []string { return notStarted(false, "created") }},
	{"not started", "create and start, by a runtime that has no such hooks", hookless},
	{"waits", "the record of the start itself", waits},
	{"killed", "at any place", killedAnywhere},
	{"killed", "when a look at the root fails once", failsOnce},
}

// created is how engines start a container.
const created = `bundle=$8 id=$9
	set -- "$1" "$2" "$3" "$4" "$5" "$6" "$7"
	"$@" create --bundle "$bundle" "$id" && "$@" start "$id"
	status=$?
	until "$@" delete "$id" || [ $status != 0 ]; do sleep 0.1; done
	"$@" delete --force "$id"
	exit $status`

// state is the runtime's directory for a container that is created.
func (b *bundle) state() string { return filepath.Join(b.dir, "state") }

// waiting is the record of a container that is created and not started.
func waiting(state, id string) string {
	return fmt.Sprintf("/run/vfix-start-%x.json", sha256.Sum256([]byte(state+"\x00"+id)))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// faults are why a runtime refuses a container after vfix has done its part: before the hooks, between them, and when
// it looks for the program.
var faults = map[string]func(b *bundle){
	"a limit without a meaning": func(b *bundle) {
		limits, _ := b.at("process")["rlimits"].([]any)
		b.at("process")["rlimits"] = append(limits, map[string]any{"type": "RLIMIT_NONE", "soft": 1, "hard": 1})
	},
	"no program":               func(b *bundle) { b.run("/usr/bin/none") },
	"a file for a directory":   func(b *bundle) { b.at("process")["cwd"] = "/usr/bin/clock" },
	"a hook that fails":        func(b *bundle) { b.hook("createContainer", "/bin/false") },
	"a mount without a source": func(b *bundle) { b.bind("/tmp/x", "/none") },
}

// notStarted: a container that the runtime does not make is recorded as not started. The same bundle starts when its fault
// is gone, and is recorded once.
func notStarted(volume bool, door string) (failures []string) {
	counted := func(is result) string {
		s := is.record.Summary
		return fmt.Sprintf("%d starts, %d not started, %d patched, %d on record", s.Starts, s.Outcomes[starts.NotStarted], s.Outcomes[starts.Patched], len(is.record.Last))
	}
	bad := func(fault string, is result, what string) {
		failures = append(failures, fmt.Sprintf("%s: %s: status %d, recorded as %q, %s: %s %s", fault, what, is.status, is.outcome, counted(is), is.said, is.left))
	}
	for fault, cause := range faults {
		b := newBundle(row{make: func(b *bundle) {
			b.legacy(b.root, "usr/bin/clock")
			b.legacy(b.host, "clock")
			if volume {
				b.bind("/data", b.host)
			}
		}})
		good := b.spec
		b.spec = decode(encode(good))
		cause(b)
		switch is := b.launch(door, false); {
		case is.status == 0 || is.status == killed || is.outcome != starts.NotStarted || is.left != "":
			bad(fault, is, "want not started")
		case len(is.record.Last[0].Files) != 0:
			bad(fault, is, "patched files on record")
		case exists(waiting(b.state(), b.id)):
			bad(fault, is, "a record waits")
		case counted(is) != "1 starts, 1 not started, 0 patched, 1 on record":
			bad(fault, is, "the summary")
		}
		b.spec = good
		is := b.launch(door, false)
		if is.status != 0 || is.outcome != starts.Patched || is.left != "" || counted(is) != "1 starts, 0 not started, 1 patched, 1 on record" {
			bad(fault, is, "gone, want patched")
		}
		for _, left := range find(b.dir, ".vfix") {
			bad(fault, is, "left in the bundle: "+left)
		}
		b.end()
	}
	return failures
}

// hookless: a runtime that executes no createRuntime hooks, as runc before 1.0.0-rc92 and crun before 0.14, starts no
// container for which the hook would have examined a volume, or is found out.
func hookless() (failures []string) {
	for _, closed := range []bool{false, true} {
		b := newBundle(row{make: func(b *bundle) {
			b.legacy(b.host, "clock")
			b.bind("/data", b.host)
			b.run("/data/clock")
			b.mkdir(b.dir, "old")
			b.via = filepath.Join(b.dir, "old", *real)
			b.file(fmt.Sprintf("#!/bin/sh -e\njq 'del(.hooks)' config.json >c && mv c config.json\nexec %s \"$@\"\n", must(exec.LookPath(*real))), b.via)
		}})
		is := b.start("created", closed)
		if closed && (is.status != refused || is.outcome != starts.Refused) || !closed && (is.status != 0 || is.outcome != starts.Unpatched) || is.left != "" {
			failures = append(failures, fmt.Sprintf("fail_closed %v: status %d, recorded as %q: %s %s", closed, is.status, is.outcome, is.said, is.left))
		}
	}
	return failures
}

// find are the paths below a directory whose names begin so.
func find(dir, prefix string) (found []string) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(path), prefix) {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// waits: a record that a container which was never made has left counts for no other of its name, and users without root
// have none.
func waits() (failures []string) {
	b := newBundle(row{make: func(b *bundle) { b.run("/bin/busybox", "true") }})
	at := waiting(b.state(), b.id)
	check(os.WriteFile(at, []byte(`{"schema": 1, "outcome": "patched", "start": "stale"}`), 0o644))
	if is := b.start("created", true); is.status != 0 || is.outcome != starts.Clean || is.record.Summary.Starts != 1 || is.left != "" || exists(at) {
		failures = append(failures, fmt.Sprintf("status %d, recorded as %q, %d starts, a record that waits %v: %s", is.status, is.outcome, is.record.Summary.Starts, exists(at), is.said))
	}
	at = waiting("", b.id)
	check(os.WriteFile(at, []byte("{}"), 0o600))
	defer os.Remove(at)
	const nobody = 65534
	cmd := exec.Command(*wrapper, "--runtime", must(exec.LookPath("true")), "start", b.id)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		failures = append(failures, fmt.Sprintf("the start of a container by another user: %v: %s", err, out))
	}
	return failures
}

// killedAnywhere: a hook that is killed: the container does not start, and nothing is left that harms the next start.
func killedAnywhere() (failures []string) {
	const times, least = 3, 10
	kills := 0
	for _, call := range strings.Fields("unshare setns mount open_tree move_mount mount_setattr fsmount renameat unlinkat flock") {
		for n := 1; n <= times; n++ {
			b := newBundle(row{make: func(b *bundle) {
				b.legacy(b.host, "clock")
				b.bind("/data", b.host)
				annotated(b, "dev.vfix.fallback", "always")
				b.run("/data/clock")
			}})
			b.file(fmt.Sprintf("#!/bin/sh\nexec %s %s %d %s \"$@\"\n", *killat, call, n, *wrapper), b.dir, "killed")
			good := b.spec
			b.spec = decode(encode(good))
			is := b.launch("killed", true)
			if is.status == 0 {
				b.end()
				break
			}
			kills++
			if files, _ := filepath.Glob(b.host + "/*"); is.status != refused || is.left != "" || len(files) != 1 {
				failures = append(failures, fmt.Sprintf("%s %d: status %d, %s, files in the volume: %q: %s", call, n, is.status, is.left, files, is.said))
			}
			b.spec = good
			is = b.launch("hook", true)
			if left, _ := filepath.Glob(b.cache + "/v1/tmp/*"); is.status != 0 || is.outcome != starts.Patched || is.left != "" || len(left) != 0 {
				failures = append(failures, fmt.Sprintf("the next start, after a kill at %s %d: status %d, recorded as %q, %s %q: %s", call, n, is.status, is.outcome, is.left, left, is.said))
			}
			b.end()
		}
	}
	fmt.Println("killed", kills, "times")
	if kills < least {
		failures = append(failures, fmt.Sprintf("killed %d times only", kills))
	}
	return failures
}

// failsOnce: one of the hook's looks at a path of the container fails, or says that another mount is there, and nothing is
// overlooked for that.
func failsOnce() (failures []string) {
	const most, least = 45, 10
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EXDEV} {
		refusals := 0
		for n := 1; n <= most; n++ {
			b := newBundle(row{make: func(b *bundle) {
				b.layers("a")
				b.legacy(b.layer("a"), "usr/bin/clock")
				b.mkdir(b.layer("a"), "opt")
				b.file("", b.layer("a"), "opt/one")
				b.overlay("", "a")
				b.shell("chmod 711 rootfs/usr/bin/clock")
				b.legacy(b.host, "a/b/clock")
				b.legacy(b.dir, "file")
				b.bind("/data", b.host)
				b.bind("/opt/one", b.dir+"/file")
				b.sh("/usr/bin/clock && /data/a/b/clock && exec /opt/one")
				b.config = map[string]any{"trusted_hooks": b.dir + "/killed"}
			}})
			b.file(fmt.Sprintf("#!/bin/sh\nexec %s -e %d openat2 %d %s \"$@\"\n", *killat, errno, n, *wrapper), b.dir, "killed")
			is := b.start("killed", true)
			if is.status == refused {
				refusals++
			}
			if is.status != refused && (is.status != 0 || is.outcome != starts.Patched) || is.left != "" {
				failures = append(failures, fmt.Sprintf("openat2 %d, %v: status %d, recorded as %q: %s %s", n, errno, is.status, is.outcome, is.said, is.left))
			}
		}
		if refusals < least {
			failures = append(failures, fmt.Sprintf("%v: refused %d times only", errno, refusals))
		}
	}
	return failures
}
