package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// machine are bundles for a machine of their own (tests/127-filesystems.bats), whose kernel has more file systems or is not
// shared with other tests. It exports a directory to itself by NFS, and has another one on 9p.
var machine = []row{
	{"9p", "volume", honest, func(b *bundle) { volume(b, b.on(share)) }},
	{"9p", "volume that the operator trusts", patched, func(b *bundle) { volume(b, b.on(share)); b.trust("9p") }},
	{"9p", "root", honest, func(b *bundle) { b.rootOn(share); b.legacy(b.root, "usr/bin/clock") }},
	{"9p", "root that the operator trusts", patched, func(b *bundle) { b.rootOn(share); b.legacy(b.root, "usr/bin/clock"); b.trust("9p") }},

	{"nfs", "volume", honest, func(b *bundle) { volume(b, b.on(exported)) }},
	{"nfs", "volume that the operator trusts", patched, func(b *bundle) { volume(b, b.on(exported)); b.trust("nfs4") }},
	{"nfs", "root that the operator trusts", patched, func(b *bundle) { b.rootOn(exported); b.legacy(b.root, "usr/bin/clock"); b.trust("nfs4") }},
	{"nfs", "a file that changed on the server", patched, func(b *bundle) { changes(b, "clock", "clock") }},
	{"nfs", "a file that is new on the server", patched, func(b *bundle) { changes(b, "a", "clock") }},
	{"nfs", "a directory that is new on the server", patched, func(b *bundle) { changes(b, "below/a", "below/more/clock") }},

	// One file under many spellings of its name.
	{"casefold", "another spelling in a volume", patched, func(b *bundle) { folded(b); b.run("/data/CLOCK") }},
	{"casefold", "a directory's other spelling", patched, func(b *bundle) {
		folded(b)
		b.legacy(b.host, "x/below/clock")
		b.run("/data/Below/Clock")
	}},
	{"casefold", "a spelling that was looked up before", patched, func(b *bundle) {
		folded(b)
		b.run("/data/cLoCk")
		b.ready = func() { b.shell("echo 2 >/proc/sys/vm/drop_caches; ls -l host/x/cLoCk") }
	}},
	{"casefold", "letters that are made of others", patched, func(b *bundle) {
		folded(b)
		b.legacy(b.host, "x/caf\u00e9")
		b.run("/data/CAFE\u0301")
	}},
	{"casefold", "both spellings", patched, func(b *bundle) { folded(b); b.sh("/data/CLOCK && /data/clock && exec /data/Clock") }},
	{"casefold", "root", patched, func(b *bundle) { foldedRoot(b); b.run("/USR/Bin/CLOCK") }},
	{"casefold", "root that is written to", patched, func(b *bundle) { foldedRoot(b); b.writable(); b.run("/USR/Bin/CLOCK") }},
	{"casefold-refused", "a mount at another spelling, which runc refuses", notMade, func(b *bundle) {
		foldedRoot(b)
		b.legacy(b.host, "clock")
		b.bind("/Data", b.host)
		b.sh("/data/clock && exec /DATA/clock")
	}},
	{"casefold", "a file at another spelling of the program", patched, func(b *bundle) {
		foldedRoot(b)
		b.legacy(b.host, "clock")
		b.bind("/usr/bin/CLOCK", b.host+"/clock")
	}},
	{"casefold-refused", "an empty mount at another spelling, which runc refuses", notMade, func(b *bundle) {
		foldedRoot(b)
		b.mount("/OPT", "tmpfs", "tmpfs")
		b.legacy(b.root, "opt/clock")
	}},

	// Such directories in memory (Linux 6.13), and below an overlay (6.18). Such an overlay finds no files in its layers
	// (fs/overlayfs/namei.c, ovl_lookup_single: a file does not fold itself), but those that it has made and still knows.
	{"casefold-layers", "a volume in memory", patched, func(b *bundle) {
		foldedIn(b, b.host)
		b.legacy(b.host, "x/clock")
		b.bind("/data", b.host+"/x")
		b.run("/data/CLOCK")
	}},
	{"casefold-layers", "a root in memory that is written to", patched, func(b *bundle) {
		foldedRootOf(b, foldedIn)
		b.writable()
		b.run("/USR/Bin/CLOCK")
	}},
	{"casefold-layers", "a root in memory", patched, func(b *bundle) { foldedRootOf(b, foldedIn); b.run("/USR/Bin/CLOCK") }},
	{"casefold-layers", "an overlay", honest, func(b *bundle) {
		foldedLayers(b, foldedAt)
		b.legacy(b.root, "usr/bin/clock")
		b.run("/USR/Bin/CLOCK")
	}},
	{"casefold-layers", "an overlay in memory", honest, func(b *bundle) {
		foldedLayers(b, foldedIn)
		b.legacy(b.root, "usr/bin/clock")
		b.run("/USR/Bin/CLOCK")
	}},
	{"casefold-layers", "an overlay as a volume", honest, func(b *bundle) {
		foldedLayers(b, foldedAt)
		b.legacy(b.root, "usr/bin/clock")
		b.bind("/data", b.root+"/usr/bin")
		b.at("root")["path"] = b.dir + "/other"
		b.shell("cp -a layers/x/lower other")
		b.run("/data/CLOCK")
	}},
	{"casefold-layers", "an overlay without other files", patched, func(b *bundle) {
		foldedLayers(b, foldedAt)
		b.legacy(b.root, "usr/bin/clock")
		b.shell("rm layers/x/lower/bin/busybox")
		b.run("/USR/Bin/CLOCK")
	}},

	// The memory of a checkpoint's processes. Each is a group of its own: criu does one at a time.
	{"restore", "a program that is not patched", honest, restored},
	{"restore-volume", "with a volume", honest, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", b.host)
		restored(b)
	}},

	// Interpreters of binfmt_misc: with F the kernel has opened them when they were registered, for all containers.
	{"binfmt", "of the container", patched, func(b *bundle) { interpreted(b, "/usr/bin/clock", ""); b.legacy(b.root, "usr/bin/clock") }},
	{"binfmt", "of a volume", patched, func(b *bundle) {
		interpreted(b, "/data/clock", "")
		b.legacy(b.host, "clock")
		b.bind("/data", b.host)
	}},
	{"binfmt", "of this machine, that does not call the page", patched, func(b *bundle) {
		b.copy("fine", b.dir, "new")
		interpreted(b, b.dir+"/new", "F")
		b.legacy(b.root, "usr/bin/clock")
		b.run("/usr/bin/clock")
	}},
	{"binfmt-machine", "of this machine", honest, func(b *bundle) { b.legacy(b.dir, "old"); interpreted(b, b.dir+"/old", "F") }},
	{"binfmt-machine", "of this machine, with another file at its path", honest, func(b *bundle) {
		b.legacy(b.dir, "old")
		interpreted(b, b.dir+"/old", "F")
		b.shell("mv old older")
		b.copy("fine", b.dir, "old")
	}},
	{"binfmt-machine", "of this machine, without a file at its path", honest, func(b *bundle) {
		b.legacy(b.dir, "old")
		interpreted(b, b.dir+"/old", "F")
		b.shell("mv old older")
	}},
	{"binfmt-machine", "of this machine, for names that end so", honest, func(b *bundle) {
		b.legacy(b.dir, "old")
		interpreted(b, b.dir+"/old", "FE")
	}},
}

// volume has a volume with the program.
func volume(b *bundle, at string) {
	b.legacy(at, "clock")
	bound(b, at)
}

func bound(b *bundle, at string) {
	b.bind("/data", at)
	b.run("/data/clock")
}

// on is a directory of the bundle's own on a file system.
func (b *bundle) on(fs func() string) string {
	at := b.mkdir(fs(), filepath.Base(b.dir)+"-"+b.id)
	b.undo = append(b.undo, func() { _ = os.RemoveAll(at) })
	return at
}

// rootOn moves the root to another file system.
func (b *bundle) rootOn(fs func() string) {
	at := b.on(fs)
	b.shell("cp -a rootfs/. '" + at + "'")
	b.root = at
	b.at("root")["path"] = at
}

// share is a directory that qemu serves by 9p.
var share = sync.OnceValue(func() string {
	const at = "/mnt/share"
	check(os.MkdirAll(at, 0o755))
	check(unix.Mount("share", at, "9p", 0, "trans=virtio,version=9p2000.L,access=any"))
	return at
})

// served is the directory that is exported by NFS, at its path on the server.
const served = "/srv/nfs"

// exported is the exported directory, mounted by a client that asks the server again after ten minutes.
var exported = sync.OnceValue(func() string {
	const at, nfsd = "/mnt/nfs", "/proc/fs/nfsd/"
	for _, dir := range []string{at, served} {
		check(os.MkdirAll(dir, 0o755))
	}
	check(unix.Mount("tmpfs", served, "tmpfs", 0, ""))
	check(unix.Mount("nfsd", nfsd, "nfsd", 0, ""))
	say := func(path, text string) { check(os.WriteFile(path, []byte(text+"\n"), 0)) }
	// As mountd answers (nfs-utils, support/export/cache.c): the client, the export with its flags (insecure, async,
	// no_subtree_check, fsid), and the file system of the number 0.
	const never = 2147483647
	say("/proc/net/rpc/auth.unix.ip/channel", fmt.Sprintf("nfsd 127.0.0.1 %d client", never))
	say("/proc/net/rpc/nfsd.export/channel", fmt.Sprintf("client %s %d %d 65534 65534 0", served, never, 0x2412))
	say("/proc/net/rpc/nfsd.fh/channel", fmt.Sprintf(`client 1 \x00000000 %d %s`, never, served))
	say(nfsd+"versions", "-3 +4 +4.1 +4.2")
	say(nfsd+"nfsv4gracetime", "10")
	say(nfsd+"portlist", "tcp 2049")
	say(nfsd+"threads", "2")
	_ = os.WriteFile(nfsd+"v4_end_grace", []byte("Y\n"), 0)
	check(unix.Mount("127.0.0.1:/", at, "nfs4", 0, "addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2,sec=sys,actimeo=600"))
	return at
})

// changes has a volume whose server changes a file after a first start, without the client.
func changes(b *bundle, first, then string) {
	at := b.on(exported)
	b.copy("fine", at, first)
	bound(b, at)
	b.trust("nfs4")
	b.run("/bin/busybox", "true")
	b.ready = func() {
		time.Sleep(1200 * time.Millisecond)
		b.first(*real)
		b.legacy(onServer(at), then)
		b.run("/data/" + then)
		write(b.dir+"/config.json", b.spec)
	}
}

// onServer is the server's path of an exported one.
func onServer(path string) string { return served + strings.TrimPrefix(path, exported()) }

// folded has a volume whose names fold.
func folded(b *bundle) {
	foldedAt(b, b.host)
	b.legacy(b.host, "x/clock")
	b.bind("/data", b.host+"/x")
}

// foldedRoot has a root whose names fold.
func foldedRoot(b *bundle) { foldedRootOf(b, foldedAt) }

func foldedRootOf(b *bundle, foldedAt func(*bundle, string)) {
	at := b.mkdir(b.dir, "folded")
	foldedAt(b, at)
	b.shell("cp -a rootfs/. folded/x")
	b.root = at + "/x"
	b.at("root")["path"] = b.root
	b.legacy(b.root, "usr/bin/clock")
}

// foldedAt mounts a file system with such a directory, x.
func foldedAt(b *bundle, at string) {
	b.shell("truncate -s 32M disk; mkfs.ext4 -q -b 4096 -O casefold disk")
	b.mounted(b.loop(), at, "ext4", 0, "")
	check(exec.Command("chattr", "+F", b.mkdir(at, "x")).Run())
}

// foldedIn mounts a file system in memory with such a directory, x.
func foldedIn(b *bundle, at string) {
	b.mounted("tmpfs", at, "tmpfs", 0, "casefold")
	check(exec.Command("chattr", "+F", b.mkdir(at, "x")).Run())
}

// foldedLayers has a root of three layers whose names fold.
func foldedLayers(b *bundle, foldedAt func(*bundle, string)) {
	layers := b.mkdir(b.dir, "layers")
	foldedAt(b, layers)
	for _, name := range []string{"upper", "work", "middle"} {
		b.mkdir(layers, "x", name)
	}
	b.shell("cp -a rootfs layers/x/lower")
	x := layers + "/x/"
	b.mounted("overlay", b.root, "overlay", 0, "lowerdir="+x+"middle:"+x+"lower,upperdir="+x+"upper,workdir="+x+"work")
	b.writable()
}

// interpreted registers an interpreter on this machine for a file of the root, until the bundle's end.
func interpreted(b *bundle, path, flags string) {
	const dir = "/proc/sys/fs/binfmt_misc"
	if _, err := os.Stat(dir + "/register"); err != nil {
		if err := unix.Mount("binfmt_misc", dir, "binfmt_misc", 0, ""); !errors.Is(err, unix.EBUSY) { // another row has mounted it
			check(err)
		}
	}
	kind, key, file := "M", "vfix"+filepath.Base(b.dir), "/usr/bin/script"
	if flags == "FE" {
		kind, flags, file = "E", "F", file+"."+key
	}
	check(os.WriteFile(dir+"/register", fmt.Appendf(nil, ":%s:%s::%s::%s:%s", key, kind, key, path, flags), 0))
	b.undo = append(b.undo, func() { _ = os.WriteFile(dir+"/"+key, []byte("-1"), 0) })
	b.file(key+" and more", b.root, file)
	b.run(file)
}

// restored is a container that runs, is saved by criu, and is started from there.
func restored(b *bundle) {
	b.copy("waits", b.root, "usr/bin/clock")
	b.run("/usr/bin/clock")
	kinds := b.at("linux")["namespaces"].([]any)
	b.at("linux")["namespaces"] = slices.DeleteFunc(kinds, func(n any) bool { return n.(map[string]any)["type"] == "network" })
	write(b.dir+"/config.json", b.spec)
	for _, args := range [][]string{
		{"run", "--detach", "--bundle", b.dir, b.id},
		{"checkpoint", "--image-path", b.dir + "/image", "--work-path", b.dir + "/log", b.id},
	} {
		cmd := exec.Command(*real, args...)
		if err := cmd.Run(); err != nil { // a pipe or a file would be the container's as well
			log, _ := exec.Command("grep", "Error", b.dir+"/log/dump.log").Output()
			panic(fmt.Sprintf("%s: %v: %s", args[0], err, log))
		}
	}
	b.file("", b.root, "go")
	b.args = []string{"restore", "--bundle", b.dir, "--image-path", b.dir + "/image", "--work-path", b.dir + "/log", b.id}
}
