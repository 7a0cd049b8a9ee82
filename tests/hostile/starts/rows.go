package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var rows = []row{
	{"root", "root", patched, func(b *bundle) { b.legacy(b.root, "usr/bin/clock") }},

	// A mount is not vfix's because of what its source is called.
	{"forged", "bind", patched, func(b *bundle) {
		b.legacy(b.cache, "v1/files/x/clock")
		b.shell("chmod -R go-w cache")
		b.bind("/data", b.cache+"/v1/files/x")
		b.run("/data/clock")
	}},
	{"forged", "file", patched, func(b *bundle) {
		b.legacy(b.cache, "v1/private/x/1")
		b.shell("chmod -R go-w cache; : >rootfs/data/clock")
		b.bind("/data/clock", b.cache+"/v1/private/x/1")
		b.run("/data/clock")
	}},
	{"forged", "tmpfs", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.mount("/data", "tmpfs", b.cache+"/v1/files/x")
	}},

	// Overlay shows a directory from another place of the layers.
	{"overlays", "redirect", patched, func(b *bundle) {
		b.layers("b", "a")
		b.legacy(b.layer("a"), "hidden/clock")
		b.mkdir(b.layer("b"), "usr/shown")
		b.xattr("trusted.overlay.redirect", "/hidden", b.layer("b"), "usr/shown")
		check(unix.Mknod(b.layer("b")+"/hidden", unix.S_IFCHR, 0))
		b.overlay("", "b", "a")
		b.run("/usr/shown/clock")
	}},
	{"overlays", "redirect on", patched, func(b *bundle) {
		b.layers("b", "a")
		b.legacy(b.layer("a"), "hidden/clock")
		b.again("mv rootfs/hidden rootfs/usr/shown", ",redirect_dir=on", "", "b", "a")
		b.run("/usr/shown/clock")
	}},
	{"overlays", "opaque", patched, func(b *bundle) {
		b.layers("b", "a")
		b.legacy(b.layer("a"), "usr/bin/clock")
		b.legacy(b.layer("b"), "usr/bin/clock2")
		b.xattr("trusted.overlay.opaque", "y", b.layer("b"), "usr/bin")
		b.overlay("", "b", "a")
		b.run("/usr/bin/clock2")
	}},
	{"overlays", "metacopy", patched, func(b *bundle) {
		b.layers("b", "a")
		b.legacy(b.layer("a"), "usr/bin/clock")
		b.again("chmod 711 rootfs/usr/bin/clock", ",metacopy=on", ",metacopy=on", "b", "a")
	}},
	// It keeps the inode number that it had in the lower layer.
	{"overlays", "copied up for another mode", patched, func(b *bundle) {
		b.layers("a")
		b.legacy(b.layer("a"), "usr/bin/clock")
		b.overlay("", "a")
		b.shell("chmod 711 rootfs/usr/bin/clock")
	}},
	{"overlays", "copied up for another mode, and damaged", honest, func(b *bundle) {
		b.layers("a")
		b.copy("damaged", b.layer("a"), "usr/bin/clock")
		b.overlay("", "a")
		b.shell("chmod 711 rootfs/usr/bin/clock")
	}},
	{"overlays", "user xattrs", patched, func(b *bundle) {
		b.layers("b", "a")
		b.legacy(b.layer("a"), "usr/bin/clock2")
		b.legacy(b.layer("b"), "usr/bin/clock")
		b.xattr("user.overlay.opaque", "y", b.layer("b"), "usr/bin")
		b.overlay(",userxattr", "b", "a")
	}},
	{"overlays", "whiteout and a file again", patched, func(b *bundle) {
		b.layers("c", "b", "a")
		b.legacy(b.layer("a"), "usr/bin/clock")
		b.mkdir(b.layer("b"), "usr/bin")
		check(unix.Mknod(b.layer("b")+"/usr/bin/clock", unix.S_IFCHR, 0))
		b.legacy(b.layer("c"), "usr/bin/clock")
		b.overlay("", "c", "b", "a")
	}},
	{"overlays", "a directory in place of a symlink", patched, func(b *bundle) {
		b.layers("b", "a")
		b.mkdir(b.layer("a"), "opt")
		b.link("../usr/bin", b.layer("a"), "opt/bin")
		b.legacy(b.layer("b"), "opt/bin/clock")
		b.overlay("", "b", "a")
		b.run("/opt/bin/clock")
	}},
	{"overlays", "data-only layer", patched, func(b *bundle) {
		b.layers("b", "a")
		b.legacy(b.dir, "layers/data/x/clock")
		b.shell("truncate -s $(stat -c %s layers/data/x/clock) layers/clock; chmod 755 layers/clock; mkdir -p " + b.layer("b") + "/usr/bin; mv layers/clock " + b.layer("b") + "/usr/bin")
		b.xattr("trusted.overlay.metacopy", "", b.layer("b"), "usr/bin/clock")
		b.xattr("trusted.overlay.redirect", "/x/clock", b.layer("b"), "usr/bin/clock")
		b.overlayOf(",metacopy=on,redirect_dir=on", b.layer("b")+":"+b.layer("a")+"::"+b.dir+"/layers/data")
	}},
	{"overlays", "one layer twice removed", patched, func(b *bundle) { // overlay upon overlay
		b.layers("b", "a")
		b.legacy(b.layer("a"), "usr/bin/clock")
		lower := b.mkdir(b.dir, "merged")
		b.mounted("overlay", lower, "overlay", 0, "lowerdir="+b.layer("b")+":"+b.layer("a"))
		b.overlayOf("", lower)
	}},
	{"overlays", "odd characters in a layer's path", patched, func(b *bundle) {
		b.layers("a")
		odd := b.dir + "/layers/a b\\c,d:e"
		b.shell("cp -a rootfs '" + odd + "'")
		b.legacy(odd, "usr/bin/clock")
		b.overlayOf("", strings.NewReplacer(`\`, `\\`, ",", `\,`, ":", `\:`).Replace(odd))
	}},
	{"overlays", "a layer below a mount", patched, func(b *bundle) { // its path shows something else by now
		b.layers("a")
		b.legacy(b.layer("a"), "usr/bin/clock")
		b.overlay("", "a")
		b.tmpfs(b.layer("a"))
	}},
	{"stale", "layer", patched, func(b *bundle) {
		b.layers("b", "a")
		b.legacy(b.layer("a"), "usr/bin/clock")
		b.overlay("", "b", "a")
		check(os.Rename(b.layer("a"), b.layer("a")+".old"))
		b.file("other", b.layer("a"), "other")
	}},

	{"stale", "layer, with a directory in its place", patched, func(b *bundle) {
		b.layers("b", "a")
		b.legacy(b.layer("a"), "usr/bin/clock")
		b.mkdir(b.layer("b"), "usr")
		b.overlay("", "b", "a")
		check(os.Rename(b.layer("a"), b.layer("a")+".old"))
		b.mkdir(b.layer("a"), "usr/bin")
	}},
	{"stale", "upper layer", patched, func(b *bundle) {
		b.layers("a")
		b.overlay("", "a")
		b.legacy(b.root, "usr/bin/clock")
		b.shell("mv layers/upper layers/upper.old; mkdir -p layers/upper/other")
	}},
	{"stale", "upper layer below a mount", patched, func(b *bundle) {
		b.layers("a")
		b.overlay("", "a")
		b.legacy(b.root, "usr/bin/clock")
		b.tmpfs(b.dir, "layers/upper")
	}},
	{"stale", "a layer, below a mount of an older, empty directory", patched, func(b *bundle) {
		b.layers("b", "a")
		empty := b.mkdir(b.dir, "layers/empty")
		time.Sleep(20 * time.Millisecond)
		b.legacy(b.layer("b"), "usr/bin/clock")
		b.shell("rm -r layers/upper; mkdir layers/upper")
		b.overlay("", "b", "a")
		b.mounted(empty, b.layer("b"), "", unix.MS_BIND, "")
	}},
	{"stale", "a layer, with an older, empty one in place of its directory", patched, func(b *bundle) {
		b.layers("b", "a")
		b.mkdir(b.dir, "layers/empty/diff")
		time.Sleep(20 * time.Millisecond)
		b.legacy(b.layer("b"), "usr/bin/clock")
		b.shell("rm -r layers/upper; mkdir layers/upper")
		b.overlay("", "b", "a")
		b.shell("cd layers/overlay2; mv b* b.old; mv ../empty " + strings.Repeat("b", 64))
	}},
	{"stale", "a known layer, with a mount in it", patched, func(b *bundle) {
		known(b, func(layer string) { b.tmpfs(layer, "usr/bin") })
	}},
	{"stale", "a known layer, with a mount over the program", patched, func(b *bundle) {
		known(b, func(layer string) { b.mounted(program("busybox"), layer+"/usr/bin/clock", "", unix.MS_BIND, "") })
	}},
	{"stale", "an upper layer with a mount over the program", patched, func(b *bundle) {
		b.layers("a")
		b.overlay("", "a")
		b.legacy(b.root, "usr/bin/clock")
		b.mounted(program("busybox"), b.dir+"/layers/upper/usr/bin/clock", "", unix.MS_BIND, "")
	}},

	// Files that a mount brings.
	{"volumes", "directory", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", b.host)
		b.run("/data/clock")
	}},
	{"volumes", "read-only", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", b.host, "ro")
		b.run("/data/clock")
	}},
	{"volumes", "one file", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.file("", b.root, "data/clock")
		b.bind("/data/clock", b.host+"/clock")
		b.run("/data/clock")
	}},
	{"volumes", "one file over a program", patched, func(b *bundle) {
		b.legacy(b.host, "x")
		b.copy("busybox", b.root, "usr/bin/clock")
		b.bind("/usr/bin/clock", b.host+"/x")
	}},
	{"volumes", "recursive", patched, func(b *bundle) {
		b.legacy(b.tmpfs(b.host, "below"), "clock")
		b.mount("/data", "bind", b.host, "rbind")
		b.run("/data/below/clock")
	}},
	{"volumes", "a file below, bound", patched, func(b *bundle) {
		b.legacy(b.dir, "other/clock")
		b.file("", b.host, "clock")
		b.mounted(b.dir+"/other/clock", b.host+"/clock", "", unix.MS_BIND, "")
		b.mount("/data", "bind", b.host, "rbind")
		b.run("/data/clock")
	}},
	{"volumes", "mounts over each other below", patched, func(b *bundle) {
		b.tmpfs(b.host, "below")
		b.legacy(b.tmpfs(b.host, "below"), "clock")
		b.mount("/data", "bind", b.host, "rbind")
		b.run("/data/below/clock")
	}},
	{"volumes", "nested", patched, func(b *bundle) {
		b.legacy(b.host, "two/clock")
		b.mkdir(b.host, "one/below")
		b.bind("/data", b.host+"/one")
		b.bind("/data/below", b.host+"/two")
		b.run("/data/below/clock")
	}},
	{"volumes", "covered", patched, func(b *bundle) {
		b.legacy(b.host, "two/clock")
		b.mkdir(b.host, "one")
		b.bind("/data", b.host+"/one")
		b.bind("/data", b.host+"/two")
		b.run("/data/clock")
	}},
	{"volumes", "a symlink leads elsewhere", patched, func(b *bundle) {
		b.legacy(b.host, "two/clock")
		b.mkdir(b.host, "one")
		b.link("/usr/bin", b.host, "one/below")
		b.bind("/data", b.host+"/one")
		b.bind("/data/below", b.host+"/two")
	}},
	{"volumes", "mount below the root", patched, func(b *bundle) {
		b.legacy(b.tmpfs(b.root, "data"), "clock")
		b.run("/data/clock")
	}},
	// One over a file of the volume would also be made on this machine.
	{"volumes", "shared", honest, func(b *bundle) {
		shared(b)
		b.mount("/data", "bind", b.host, "rbind", "rshared")
		b.at("linux")["rootfsPropagation"] = "rshared"
	}},
	{"volumes", "receiving", patched, func(b *bundle) {
		shared(b)
		b.mount("/data", "bind", b.host, "rbind", "rslave")
	}},
	{"volumes", "unbindable", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", b.host, "runbindable")
		b.run("/data/clock")
	}},
	{"volumes", "overlay", patched, func(b *bundle) {
		b.legacy(b.host, "a/clock")
		b.mkdir(b.host, "b")
		b.mount("/data", "overlay", "overlay", "lowerdir="+b.host+"/b:"+b.host+"/a")
		b.run("/data/clock")
	}},
	{"volumes", "user namespace", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.users()
		b.bind("/data", b.host)
		b.run("/data/clock")
	}},
	{"volumes", "id-mapped", patched, func(b *bundle) {
		b.legacy(b.host, "x/clock")
		b.idmapped(b.host+"/x", b.mkdir(b.host, "y"))
		b.bind("/data", b.host+"/y")
		b.run("/data/clock")
	}},
	{"volumes", "relative source", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", "host")
		b.run("/data/clock")
	}},
	{"volumes", "by way of /proc", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", "/proc/self/root"+b.host)
		b.run("/data/clock")
	}},
	{"volumes", "relative destination", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("data", b.host)
		b.run("/data/clock")
	}},
	{"volumes", "dots in the destination", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/tmp/../usr/./bin/", b.host)
	}},
	{"volumes", "no type, rbind", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.mount("/data", "none", b.host, "rbind")
		b.run("/data/clock")
	}},
	{"volumes", "proc, bind", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.mount("/data", "proc", b.host, "bind")
		b.run("/data/clock")
	}},
	{"volumes", "another name of the root's file", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/other")
		check(os.Link(b.root+"/usr/bin/other", b.host+"/clock"))
		b.bind("/data", b.host)
		b.run("/data/clock")
	}},
	{"volumes", "working directory", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", b.host)
		b.at("process")["cwd"] = "/data"
		b.run("./clock")
	}},
	{"volumes", "first in PATH", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.copy("busybox", b.root, "usr/bin/clock")
		b.bind("/data", b.host)
		b.at("process")["env"] = []string{"PATH=/data:/usr/bin:/bin"}
		b.run("clock")
	}},
	{"volumes", "runc exec", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", b.host)
		b.run("/bin/busybox", "sleep", "60")
		b.args = []string{"run", "--detach", "--bundle", b.dir, b.id}
		b.exec = []string{"/data/clock"}
	}},
	{"volumes", "file capabilities", patched, func(b *bundle) {
		b.copy("capable", b.host, "clock")
		b.shell("setcap cap_sys_nice+ep host/clock")
		b.bind("/data", b.host)
		b.at("process")["user"] = map[string]any{"uid": 1000, "gid": 1000}
		b.at("process")["noNewPrivileges"] = false
		b.at("process", "capabilities")["bounding"] = []string{"CAP_SYS_NICE"}
		b.run("/data/clock")
	}},
	// A copy gains nothing that its original is denied.
	{"volumes", "not executable", unchanged, func(b *bundle) { denied(b, "", "noexec") }},
	{"volumes", "one file, not executable", unchanged, func(b *bundle) { denied(b, "/clock", "noexec") }},
	{"volumes", "without setuid", unchanged, func(b *bundle) { denied(b, "", "nosuid") }},
	{"volumes", "one file, without setuid", unchanged, func(b *bundle) { denied(b, "/clock", "nosuid") }},
	{"volumes", "id-mapped by config.json", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", b.host)
		mounts := b.spec["mounts"].([]any)
		ids := []any{map[string]any{"containerID": 0, "hostID": 100000, "size": 65536}}
		m := mounts[len(mounts)-1].(map[string]any)
		m["uidMappings"], m["gidMappings"] = ids, ids
		b.run("/data/clock")
	}},
	{"volumes", "over a file of /proc", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/proc/uptime", b.host+"/clock")
		b.run("/proc/uptime")
	}},
	{"volumes", "in /dev", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/dev/data", b.host)
		b.run("/dev/data/clock")
	}},
	// The author of an image chose the times of its files.
	{"volumes", "an image in place of another that has the same times", honest, func(b *bundle) {
		b.legacy(b.dir, "new/clock")
		b.copy("fine", b.dir, "old/clock")
		b.shell("truncate -s 64K old/clock new/clock; for i in old new; do mksquashfs $i $i.img -all-time 1 -mkfs-time 1 -noD -noF -quiet >/dev/null; done; cp old.img disk")
		loop := b.shell("losetup --find --show disk")
		b.undo = append(b.undo, func() { _ = exec.Command("losetup", "--detach", loop).Run() })
		b.mounted(loop, b.host, "squashfs", unix.MS_RDONLY, "")
		b.bind("/data", b.host)
		b.run("/data/clock")
		b.ready = func() {
			b.first(*real)
			b.unused(loop)
			b.shell("dd if=new.img of=" + loop + " conv=fsync status=none; blockdev --flushbufs " + loop)
			check(unix.Mount(loop, b.host, "squashfs", unix.MS_RDONLY, ""))
		}
	}},
	{"volumes", "a disk image that was changed below the file system", honest, func(b *bundle) { changedBelow(b, "") }},
	{"volumes", "a disk image, by a partition", honest, func(b *bundle) { changedBelow(b, "p1") }},
	{"volumes", "a file that another process has mapped", honest, func(b *bundle) {
		b.legacy(b.dir, "new")
		b.copy("fine", b.tmpfs(b.host), "clock")
		b.shell("truncate -s 64K host/clock new")
		b.bind("/data", b.host)
		b.run("/data/clock")
		b.ready = func() {
			f, err := os.OpenFile(b.host+"/clock", os.O_RDWR, 0)
			check(err)
			m, err := unix.Mmap(int(f.Fd()), 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			check(err)
			for i := 0; i < len(m); i += 4096 {
				m[i]++
				m[i]--
			}
			time.Sleep(300 * time.Millisecond)
			b.run("/bin/busybox", "true")
			b.first(*real)
			b.run("/data/clock")
			new, err := os.ReadFile(b.dir + "/new")
			check(err)
			copy(m, new)
			check(unix.Munmap(m))
			f.Close()
		}
	}},
	{"volumes", "a file that a buffer of io_uring holds", honest, func(b *bundle) {
		b.legacy(b.dir, "new")
		b.copy("fine", b.tmpfs(b.host), "clock")
		b.shell("truncate -s 64K host/clock new")
		b.bind("/data", b.host)
		b.run("/data/clock")
		b.ready = func() {
			write := b.held(b.host + "/clock")
			time.Sleep(300 * time.Millisecond)
			b.first(*real)
			new, err := os.ReadFile(b.dir + "/new")
			check(err)
			write(new)
		}
	}},
	{"volumes", "an encrypted directory that is unlocked", patched, func(b *bundle) {
		b.mounted(b.device("mkfs.ext4 -q -b 4096 -O encrypt"), b.host, "ext4", 0, "")
		lock, unlock := b.encrypted(b.host + "/x")
		b.legacy(b.host, "x/clock")
		lock()
		b.bind("/data", b.host)
		b.run("/data/x/clock")
		b.ready = func() {
			time.Sleep(1200 * time.Millisecond)
			b.first(*real)
			unlock()
		}
	}},
	{"automounter", "a directory of a volume", patched, func(b *bundle) {
		b.legacy(b.dir, "new/clock")
		b.tmpfs(b.host)
		check(unix.Mount("", b.host, "", unix.MS_SHARED, ""))
		automounted(b, b.mkdir(b.host, "auto"), b.dir+"/new")
		b.mount("/data", "bind", b.host, "rbind", "rslave")
		b.run("/data/auto/clock")
	}},
	{"volumes", "unreadable directory", patched, func(b *bundle) {
		b.legacy(b.host, "a/clock")
		b.shell("chmod 111 host/a host/a/clock")
		b.bind("/data", b.host)
		b.run("/data/a/clock")
	}},
	{"own overlay", "root in the machine's", patched, func(b *bundle) {
		b.layers("a")
		b.overlay("", "a")
		b.shell("mkdir rootfs/inner; cp -a rootfs/bin rootfs/proc rootfs/dev rootfs/sys rootfs/usr rootfs/data rootfs/tmp rootfs/inner/")
		b.legacy(b.root, "inner/usr/bin/clock")
		b.spec["root"] = map[string]any{"path": "rootfs/inner", "readonly": false}
	}},
	{"tmpcopyup", "directory", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.mount("/usr/bin", "tmpfs", "tmpfs", "tmpcopyup")
	}},
	{"tmpcopyup", "overlay", patched, func(b *bundle) {
		b.layers("a")
		b.legacy(b.layer("a"), "usr/bin/clock")
		b.overlay("", "a")
		b.mount("/usr/bin", "tmpfs", "tmpfs", "tmpcopyup")
	}},

	// A hook mounts before vfix's own has looked, or after it.
	{"hooks", "prestart", patched, func(b *bundle) { mounter(b, "prestart", enter, "mount --bind $HOST $ROOT/data") }},
	{"hooks", "earlier", patched, func(b *bundle) { mounter(b, "createRuntime", enter, "mount --bind $HOST $ROOT/data") }},
	{"hooks", "moves a mount", patched, func(b *bundle) {
		mounter(b, "createRuntime", enter, "mount -t tmpfs x $ROOT/tmp; cp $HOST/clock $ROOT/tmp; mount --move $ROOT/tmp $ROOT/data")
	}},
	{"hooks", "binds one file", patched, func(b *bundle) {
		b.file("", b.root, "data/clock")
		mounter(b, "prestart", enter, "mount --bind $HOST/clock $ROOT/data/clock")
	}},

	{"hooks", "moves an older mount into a later one", patched, func(b *bundle) {
		mounter(b, "createRuntime", enter, "mount -t tmpfs x $ROOT/tmp; cp $HOST/clock $ROOT/tmp; mount -t tmpfs y $ROOT/data; mkdir $ROOT/data/below; mount --move $ROOT/tmp $ROOT/data/below")
		b.run("/data/below/clock")
	}},
	{"hooks", "poststart", honest, func(b *bundle) {
		mounter(b, "poststart", "", "cp $HOST/clock $ROOT/data/x; mv $ROOT/data/x $ROOT/data/clock")
		b.sh("until [ -e /data/clock ]; do /bin/busybox sleep 0.1; done; exec /data/clock")
	}},
	{"hooks", "a runtime that adds a mount", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		adding(b, "nvidia-container-runtime")
	}},
	{"hooks", "a runtime of any name that adds a mount", honest, func(b *bundle) {
		b.legacy(b.host, "clock")
		adding(b, "other-runtime")
	}},
	{"hooks", "of a container's own program", honest, func(b *bundle) {
		b.legacy(b.dir, "clock")
		b.shell("gzip -c clock >rootfs/data/clock.gz")
		b.mount("/tmp", "tmpfs", "tmpfs")
		b.hook("startContainer", "/bin/busybox", "sh", "-c", "/bin/busybox gunzip -c /data/clock.gz >/tmp/clock && /bin/busybox chmod 755 /tmp/clock")
		b.sh("exec /tmp/clock")
	}},
	{"hooks", "called as vfix's own is", honest, func(b *bundle) {
		mounter(b, "createContainer", "", "mount --bind $HOST $ROOT/data")
		called(b, "vfix-runtime", "hook")
	}},
	{"hooks", "called as one is that vfix-runtime adds", honest, func(b *bundle) {
		mounter(b, "createContainer", "", "mount --bind $HOST $ROOT/data")
		called(b, "vfix-runtime", "--start-id", "x", "hook")
	}},
	{"hooks", "before one of vfix's that only records", honest, func(b *bundle) {
		b.only = "hook"
		b.legacy(b.host, "clock")
		b.run("/data/clock")
		b.text = func([]byte) []byte { // behind vfix's own
			b.script("createRuntime", enter, "mount --bind "+b.host+" "+b.root+"/data")
			b.hook("createRuntime", *wrapper, "vfix-runtime", "started")
			return encode(b.spec)
		}
	}},
	{"hooks", "called as docker's is", honest, func(b *bundle) {
		b.legacy(b.host, "clock")
		shell := exec.Command("sh", "-c", "sleep 60; true")
		shell.SysProcAttr = endWithParent()
		check(shell.Start())
		b.undo = append(b.undo, func() { _ = shell.Process.Kill(); _ = shell.Wait() })
		b.hook("createContainer", fmt.Sprintf("/proc/%d/exe", shell.Process.Pid), "libnetwork-setkey", "-c", "mount --bind "+b.host+" "+b.root+"/data")
		b.run("/data/clock")
	}},
	{"hooks", "a seccomp agent", honest, agent},
	{"hooks", "later", honest, func(b *bundle) {
		mounter(b, "createContainer", "", "mount --bind $HOST $ROOT/data")
	}},
	// As a runtime would that executes the hook before it makes the mounts, or makes them at another place.
	{"hooks", "where the mounts of config.json are not yet", honest, func(b *bundle) {
		b.bind("/data", b.host)
		mounter(b, "prestart", enter, "umount $ROOT/data")
		mounter(b, "createContainer", "", "mount --bind $HOST $ROOT/data")
		b.config = map[string]any{"trusted_hooks": b.dir + "/script-prestart," + b.dir + "/script-createContainer"}
	}},
	{"hooks", "with a time limit", patched, func(b *bundle) {
		mounter(b, "prestart", enter, "sleep 0.2; mount --bind $HOST $ROOT/data")
		b.at("hooks")["prestart"].([]any)[0].(map[string]any)["timeout"] = 30
	}},
	{"hooks", "writes into the root", patched, func(b *bundle) {
		mounter(b, "prestart", "", "cp $HOST/clock $ROOT/data")
	}},

	// The runtime mounts elsewhere than it seems, or something over the root when all hooks have ended.
	{"mounts", "uncovered", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.link("/usr/bin/clock", b.root, "data/link")
		b.mount("/data", "tmpfs", "tmpfs")
		b.bind("/data/link", "/etc/hostname")
	}},
	{"mounts", "covered", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.legacy(b.root, "opt/clock")
		b.mount("/usr", "mqueue", "mqueue")
		b.run("/opt/clock")
	}},
	{"mounts", "read-only paths", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		l := b.at("linux")
		l["readonlyPaths"], l["maskedPaths"] = []string{"/usr", "/usr/bin/clock"}, []string{"/tmp"}
	}},
	{"mounts", "block device", patched, func(b *bundle) {
		b.legacy(b.dir, "files/clock")
		loop := b.shell("truncate -s 16M disk; mkfs.ext4 -q -d files disk; losetup --find --show disk")
		b.undo = append(b.undo, func() { _ = exec.Command("losetup", "--detach", loop).Run() })
		b.mount("/data", "ext4", loop)
		b.run("/data/clock")
	}},
	{"mounts", "the root once more", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.bind("/data", b.root+"/usr")
		b.run("/data/bin/clock")
	}},

	{"mounts", "another process's namespace", honest, func(b *bundle) {
		b.legacy(b.host, "usr/bin/clock")
		b.shell("cp -a rootfs/. host/")
		sleep := exec.Command("unshare", "-m", "sh", "-c", "mount --bind '"+b.host+"' '"+b.root+"' && exec sleep 60")
		check(sleep.Start())
		b.undo = append(b.undo, func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
		proc := fmt.Sprintf("/proc/%d/", sleep.Process.Pid)
		for range 1000 {
			if text, _ := os.ReadFile(proc + "mountinfo"); strings.Contains(string(text), " "+b.root+" ") {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		b.namespace("mount", proc+"ns/mnt")
	}},

	// The root, and ways to it.
	// Today's runc takes a destination that begins with the root's path on this machine for one in the root.
	{"destinations", "below the root's path", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind(b.root+"/data", b.host)
		b.run("/data/clock")
	}},
	{"destinations", "an empty mount below the root's path, and a program at that path in the root", patched, func(b *bundle) {
		b.legacy(b.root, b.root, "data/clock")
		b.mount(b.root+"/data", "tmpfs", "tmpfs")
		b.run(b.root + "/data/clock")
	}},
	{"destinations", "the root's path", notMade, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.bind(b.root, b.host)
	}},
	{"roots", "dots", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.at("root")["path"] = "../" + filepath.Base(b.dir) + "/./rootfs"
		b.run("clock")
	}},
	{"roots", "absolute", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.at("root")["path"] = b.root
	}},
	{"roots", "written to", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.writable()
	}},
	{"roots", "by way of a symlink's directory", notMade, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.link(b.dir, b.dir, "again")
		b.at("root")["path"] = b.dir + "/again/rootfs"
	}},
	{"roots", "bundle behind a symlink", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.link(b.dir, b.dir, "again")
		b.args = []string{"run", "--bundle", b.dir + "/again", b.id}
	}},
	{"roots", "a symlink", notMade, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.link(b.root, b.dir, "again")
		b.at("root")["path"] = b.dir + "/again"
	}},
	{"roots", "id-mapped", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.idmapped(b.root, b.root)
		b.at("process")["user"] = map[string]any{"uid": 1000, "gid": 1000}
	}},
	{"roots", "bound twice", patched, func(b *bundle) {
		b.shell("cp -a rootfs other")
		b.legacy(b.dir, "other/usr/bin/clock")
		b.mounted(b.root, b.root, "", unix.MS_BIND, "")
		b.mounted(b.dir+"/other", b.root, "", unix.MS_BIND, "")
	}},
	{"roots", "tmpfs", patched, func(b *bundle) {
		b.shell("mv rootfs other; mkdir rootfs")
		b.tmpfs(b.root)
		b.shell("cp -a other/. rootfs")
		b.legacy(b.root, "usr/bin/clock")
	}},
	{"roots", "shared", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.at("linux")["rootfsPropagation"] = "shared"
	}},
	{"roots", "an older mount over a later one", patched, func(b *bundle) {
		b.layers("a")
		other := b.mkdir(b.dir, "layers/other")
		b.legacy(other, "usr/bin/clock")
		top := b.mkdir(b.dir, "top")
		b.mounted("overlay", top, "overlay", 0, "lowerdir="+other+":"+b.layer("a"))
		tree, err := unix.OpenTree(unix.AT_FDCWD, top, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		check(err)
		defer unix.Close(tree)
		b.overlay("", "a")
		check(unix.MoveMount(tree, "", unix.AT_FDCWD, b.root, unix.MOVE_MOUNT_F_EMPTY_PATH))
		b.undo = append(b.undo, func() { _ = unix.Unmount(b.root, unix.MNT_DETACH) })
	}},
	{"roots", "immutable", patched, func(b *bundle) { immutable(b); b.run("/usr/bin/clock") }},
	{"roots", "immutable, and known with a mount over the program", patched, func(b *bundle) {
		immutable(b)
		b.run("/usr/bin/clock")
		b.ready = func() {
			b.bind("/usr/bin", b.host)
			b.first("true")
			mounts := b.spec["mounts"].([]any)
			b.spec["mounts"] = mounts[:len(mounts)-1]
			write(filepath.Join(b.dir, "config.json"), b.spec)
		}
	}},
	{"roots", "said to be immutable, and written to", patched, func(b *bundle) {
		written(b)
		b.writable()
	}},
	{"roots", "said to be immutable, and mounted again by a container with the right to", patched, func(b *bundle) {
		written(b)
		b.at("process", "capabilities")["bounding"] = []string{"CAP_SYS_ADMIN"}
	}},
	{"roots", "receiving", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.at("linux")["rootfsPropagation"] = "rslave"
	}},
	{"roots", "merged /usr", patched, func(b *bundle) {
		b.shell("mv rootfs/bin/busybox rootfs/usr/bin; rmdir rootfs/bin; ln -s usr/bin rootfs/bin; ln -s /usr/bin rootfs/sbin")
		b.legacy(b.root, "usr/bin/clock")
		b.run("/sbin/clock")
	}},
	{"roots", "odd characters in its path", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.shell("mv rootfs 'a \tb\\c\"d'")
		b.at("root")["path"] = "a \tb\\c\"d"
	}},
	{"roots", "mount at /", notMade, func(b *bundle) {
		b.shell("cp -a rootfs/. host")
		b.legacy(b.host, "usr/bin/clock")
		b.legacy(b.root, "usr/bin/clock")
		b.bind("/", b.host)
	}},

	// Programs, and ways to start them.
	{"programs", "packed", honest, func(b *bundle) { b.copy("packed", b.root, "usr/bin/clock") }},
	{"programs", "damaged", honest, func(b *bundle) { b.copy("damaged", b.root, "usr/bin/clock") }},
	{"programs", "tiny", honest, func(b *bundle) { b.copy("tiny", b.root, "usr/bin/clock") }},
	{"programs", "tiny in a volume", honest, func(b *bundle) {
		b.copy("tiny", b.host, "clock")
		b.bind("/data", b.host)
		b.run("/data/clock")
	}},
	{"programs", "code in front of the segment", honest, func(b *bundle) { b.copy("head", b.root, "usr/bin/clock") }},
	{"programs", "hard link", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		check(os.Link(b.root+"/usr/bin/clock", b.root+"/data/other"))
		b.run("/data/other")
	}},
	{"programs", "setuid", patched, func(b *bundle) {
		b.copy("root", b.root, "usr/bin/clock")
		b.shell("chmod 4755 rootfs/usr/bin/clock")
		b.at("process")["user"] = map[string]any{"uid": 1000, "gid": 1000}
		b.at("process")["noNewPrivileges"] = false
	}},
	{"programs", "setuid in a volume", patched, func(b *bundle) {
		b.copy("root", b.host, "clock")
		b.shell("chmod 4755 host/clock")
		b.at("process")["user"] = map[string]any{"uid": 1000, "gid": 1000}
		b.at("process")["noNewPrivileges"] = false
		b.bind("/data", b.host)
		b.run("/data/clock")
	}},
	{"programs", "holes", honest, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		check(os.Truncate(b.root+"/usr/bin/clock", 400<<20))
	}},
	{"programs", "beyond the largest file", honest, func(b *bundle) {
		b.legacy(b.host, "clock")
		check(os.Truncate(b.host+"/clock", 5<<30))
		b.bind("/data", b.host)
		b.run("/data/clock")
	}},
	{"programs", "names that a shell or JSON may take for something else", patched, func(b *bundle) {
		for i, name := range []string{"with blank", "line\nbreak", `quote"s\`, "é", ",:=", "-rf", "..so", "$(x)"} {
			b.legacy(b.root, "data", fmt.Sprint(i), name)
		}
		b.sh("for f in /data/*/* /data/*/..so; do \"$f\" || exit; done")
	}},
	{"programs", "a name as of a file that vfix left half-done", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/.vfix-0123456789abcdef.tmp")
		b.run("/usr/bin/.vfix-0123456789abcdef.tmp")
	}},
	{"programs", "such a name, and too large", honest, func(b *bundle) {
		b.legacy(b.root, "usr/bin/.vfix-0123456789abcdef.tmp")
		check(os.Truncate(b.root+"/usr/bin/.vfix-0123456789abcdef.tmp", 5<<30))
		b.run("/usr/bin/.vfix-0123456789abcdef.tmp")
	}},
	{"programs", "a name that is not UTF-8", honest, func(b *bundle) {
		b.legacy(b.root, "data/clock\xff")
		b.sh("exec /data/clock*")
	}},
	{"programs", "a name that is not UTF-8, in a volume", patched, func(b *bundle) {
		b.legacy(b.host, "clock\xff \n")
		b.bind("/data", b.host)
		b.sh("exec /data/clock*")
	}},
	{"programs", "beside special files", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.shell("cd rootfs/usr/bin; mkfifo a.so; mknod b.so c 5 0; mknod c.so b 7 0; mkdir d.so; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"e.so\")'")
	}},
	{"programs", "interpreter", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.file("#!/usr/bin/clock\n", b.root, "data/script")
		b.run("/data/script")
	}},
	{"programs", "chain of interpreters", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.file("#!/data/clock\n", b.root, "usr/bin/one")
		b.file("#!/usr/bin/one\n", b.root, "usr/bin/two")
		b.bind("/data", b.host)
		b.run("/usr/bin/two")
	}},
	{"programs", "copied", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.mount("/tmp", "tmpfs", "tmpfs")
		b.sh("/bin/busybox cp /usr/bin/clock /tmp/x && exec /tmp/x")
	}},
	{"programs", "by way of /proc", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.sh("exec 3</usr/bin/clock; exec /proc/self/fd/3")
	}},
	{"programs", "root of a process", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.run("/proc/self/root/usr/bin/clock")
	}},
	{"programs", "executes itself", patched, func(b *bundle) { b.copy("again", b.root, "usr/bin/clock") }},
	{"programs", "in memory", patched, func(b *bundle) { b.copy("memory", b.root, "usr/bin/clock") }},
	{"programs", "handed by the caller", honest, func(b *bundle) { b.handed(program("clock"), "1", "/proc/self/fd/3") }},
	{"programs", "handed by the caller, by a number that is not decimal", honest, func(b *bundle) {
		b.handed(program("clock"), "0x1", "/proc/self/fd/3")
	}},
	{"programs", "a directory handed by the caller", honest, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.handed(b.host, "1", "/proc/self/fd/3/clock")
	}},
	{"programs", "handed as standard input", honest, func(b *bundle) {
		var err error
		b.stdin, err = os.Open(program("clock"))
		check(err)
		b.undo = append(b.undo, func() { b.stdin.Close() })
		b.run("/bin/busybox", "sleep", "60")
		b.args = []string{"run", "--detach", "--bundle", b.dir, b.id}
		b.exec = []string{"/proc/1/fd/0"}
	}},
	{"programs", "odd identification", patched, func(b *bundle) { b.copy("odd", b.root, "usr/bin/clock") }},

	// Libraries, where only the loader finds them.
	{"libraries", "LD_LIBRARY_PATH", patched, func(b *bundle) { dynamic(b, "libold.so"); b.env("LD_LIBRARY_PATH=/data") }},
	{"libraries", "LD_PRELOAD", patched, func(b *bundle) {
		dynamic(b, "any name")
		b.shell("cp '" + program("modern") + "' rootfs/lib/libold.so")
		b.env("LD_PRELOAD=/data/any name")
		b.shell("mv 'host/any name' host/anyname")
		b.env("LD_PRELOAD=/data/anyname")
	}},
	{"libraries", "ld.so.cache", patched, func(b *bundle) {
		dynamic(b, "libold.so")
		b.mkdir(b.root, "etc")
		b.shell("cp host/libold.so rootfs/data; echo /data >rootfs/etc/ld.so.conf; ldconfig -r rootfs; rm rootfs/data/libold.so")
	}},
	{"libraries", "the loader itself", patched, func(b *bundle) {
		dynamic(b, "libold.so")
		b.run("/lib64/ld-linux-x86-64.so.2", "--library-path", "/lib:/data", "/usr/bin/clock")
	}},
	{"libraries", "for another machine", honest, func(b *bundle) { forMusl(b, "machine", "") }},
	{"libraries", "without a magic", honest, func(b *bundle) { forMusl(b, "nameless", "") }},
	{"libraries", "without a magic, one file", honest, func(b *bundle) { forMusl(b, "nameless", "/libold.so") }},
	{"libraries", "not executable", patched, func(b *bundle) {
		dynamic(b, "libold.so")
		b.shell("chmod 400 host/libold.so")
		b.env("LD_LIBRARY_PATH=/data")
	}},
	{"libraries", "the loader and a program that is not executable", patched, func(b *bundle) {
		dynamic(b, "libold.so")
		b.shell("cp rootfs/usr/bin/clock host/prog; chmod 644 host/prog")
		b.run("/lib64/ld-linux-x86-64.so.2", "--library-path", "/data:/lib", "/data/prog")
	}},

	// config.json, and the command line.
	{"config", "an annotation that disables", honest, func(b *bundle) { annotated(b, "dev.vfix.enable", "false") }},
	{"config", "an annotation in another case", patched, func(b *bundle) { annotated(b, "Dev.Vfix.Enable", "false") }},
	{"config", "an annotation without meaning", honest, func(b *bundle) { annotated(b, "dev.vfix.enable", "False") }},
	{"config", "an annotation twice", honest, func(b *bundle) {
		annotated(b, "dev.vfix.enable", "true")
		b.only, b.text = "wrapper", func(t []byte) []byte {
			return bytes.Replace(t, []byte(`"dev.vfix.enable":"true"`), []byte(`"dev.vfix.enable":"true","dev.vfix.enable":"false"`), 1)
		}
	}},
	{"config", "byte order mark", notMade, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.text = func(t []byte) []byte { return append([]byte("\xef\xbb\xbf"), t...) }
	}},
	{"config", "a member that the runtime knows and vfix does not", honest, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.at("linux")["programs"] = b.host
		adding(b, "runc")
	}},
	{"config", "mounts twice", honest, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.run("/data/clock")
		b.text = func(t []byte) []byte {
			return fmt.Appendf(nil, `{"mounts":[{"destination":"/data","type":"bind","source":%q,"options":["bind"]}],%s`, b.host, bytes.Replace(t[1:], []byte(`"mounts":[{"destination":"/proc"`), []byte(`"Mounts":[{"destination":"/data","type":"bind","source":"`+b.host+`","options":["bind"]},{"destination":"/proc"`), 1))
		}
	}},
	{"config", "root twice", honest, func(b *bundle) {
		b.shell("cp -a rootfs other")
		b.legacy(b.dir, "other/usr/bin/clock")
		b.text = func(t []byte) []byte { return append(t[:len(t)-1], `,"Root":{"path":"other"}}`...) }
	}},
	{"config", "escapes and blanks", patched, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", b.host)
		b.run("/data/clock")
		b.text = func(t []byte) []byte {
			return append(bytes.Replace(t, []byte(`"mounts":[{"destination":"/proc"`), []byte(`"m\u006funts" : [ {"destination":"\/proc"`), 1), " \n\t"...)
		}
	}},
	{"config", "config.json is a symlink", honest, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.bind("/data", b.host)
		b.run("/data/clock")
		b.ready = func() {
			b.shell("mv config.json elsewhere.json; ln -s elsewhere.json config.json")
		}
	}},
	{"config", "a file of this machine as a device", patched, func(b *bundle) { // which runc binds in a user namespace
		b.legacy(b.dir, "clock")
		b.mkdir(b.root, b.dir)
		b.users()
		b.at("linux")["devices"] = []any{map[string]any{"path": b.dir + "/clock", "type": "c", "major": 1, "minor": 3}}
		b.run(b.dir + "/clock")
	}},
	{"config", "limits", honest, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.config = map[string]any{"limits": map[string]any{"names": 3}}
	}},

	// The fallback, where an image or the engine is in its way: no such container fails to start for it, none is said to
	// have it, and nothing is made in a volume.
	{"fallback", "a symlink to /proc in its place", partly, func(b *bundle) { fallback(b); b.link("/proc", b.root, "vfix") }},
	{"fallback", "a symlink to .. in its place", partly, func(b *bundle) { fallback(b); b.link("..", b.root, "vfix") }},
	{"fallback", "a volume over /etc", partly, func(b *bundle) {
		fallback(b)
		b.mkdir(b.root, "etc")
		b.bind("/etc", b.host)
	}},
	{"fallback", "a root of others than the user namespace's root", partly, func(b *bundle) {
		fallback(b)
		b.users()
		check(os.Chown(b.root, 0, 0)) // where the runtime would make /vfix
	}},
	{"limits", "a volume beyond them", partly, func(b *bundle) { // the root is patched
		b.legacy(b.root, "usr/bin/clock")
		b.legacy(b.host, "clock")
		for i := range 60 {
			b.mkdir(b.host, fmt.Sprint(i))
		}
		b.bind("/data", b.host)
		b.config = map[string]any{"limits": map[string]any{"names": 50}}
		b.only, b.after = "wrapper", saying("limits.names")
	}},
	{"commands", "bundle with =", patched, func(b *bundle) { typed(b, "run", "--bundle="+b.dir, b.id) }},
	{"commands", "bundle behind the ID", patched, func(b *bundle) { typed(b, "run", b.id, "-bundle", b.dir) }},
	{"commands", "short option", patched, func(b *bundle) { typed(b, "run", "-b", b.dir, "--no-pivot", b.id) }},
	{"commands", "short option with =", patched, func(b *bundle) { typed(b, "run", "-b="+b.dir, b.id) }},
	{"commands", "two bundles", notMade, func(b *bundle) { typed(b, "run", "-b", "/none", "--bundle", b.dir, b.id) }},
	{"commands", "none, and keep", patched, func(b *bundle) { typed(b, "--debug", "--log=log", "run", "--keep", b.id) }},
	{"commands", "dashes", patched, func(b *bundle) { typed(b, "run", "--", b.id) }},
	{"commands", "options of other runtimes", patched, func(b *bundle) {
		typed(b, "--platform", "x", "--network", "y", "run", "--bundle", b.dir, b.id)
		b.via = filepath.Join(b.dir, "runc")
		b.file("#!/bin/sh\nshift 4\nexec '"+must(exec.LookPath(*real))+"' \"$@\"\n", b.via)
		b.only = "wrapper"
	}},
	{"crun", "options in one argument", patched, func(b *bundle) {
		typed(b, "run", "-db", "other", b.id)
		b.only = "wrapper"
		b.exec = []string{"/data/clock"}
		b.run("/bin/busybox", "sleep", "60")
		b.ready = func() {
			b.shell("mkdir other; cp -a rootfs other; cp config.json other; sed 's|/data|/tmp|; s|'" + b.host + "'|/proc|' config.json >c; mv c config.json")
		}
	}},
	{"crun", "an option that ends at a NUL", honest, func(b *bundle) {
		b.legacy(b.host, "clock")
		b.mount("/data", "proc", b.host, "bind\x00")
		b.run("/data/clock")
	}},
	{"crun", "a seccomp agent by an annotation", honest, func(b *bundle) {
		b.at("annotations")["run.oci.seccomp.receiver"] = agentOfCrun(b)
	}},
	{"crun", "a seccomp agent by a variable", honest, func(b *bundle) {
		b.environ = append(os.Environ(), "RUN_OCI_SECCOMP_RECEIVER="+agentOfCrun(b))
	}},
	{"commands", "an empty option", notMade, func(b *bundle) { typed(b, "run", "--bundle", "", "--bundle", "", b.id, "x") }},
}

// typed has runc called with arguments.
func typed(b *bundle, args ...string) {
	b.legacy(b.host, "clock")
	b.bind("/data", b.host)
	b.run("/data/clock")
	b.args = args
}

// known makes a first start from a layer that the cache then knows, and changes something below the next one.
func known(b *bundle, change func(layer string)) {
	b.layers("a")
	plain := b.dir + "/layers/plain"
	b.shell("cp -a rootfs layers/plain")
	b.legacy(plain, "usr/bin/clock")
	b.overlayOf("", plain)
	b.ready = func() {
		b.first(*real)
		check(unix.Unmount(b.root, 0))
		b.shell("rm -rf layers/upper layers/work; mkdir layers/upper layers/work")
		b.overlayOf("", plain)
		change(plain)
	}
}

// first makes a start from the bundle as it is, by which the cache knows what is in it.
func (b *bundle) first(runtime string) {
	text, err := os.ReadFile(b.dir + "/config.json")
	check(err)
	write(b.dir+"/config.json", b.spec)
	command(b, *wrapper, "--vfix-config", filepath.Join(b.dir, "runtime.json"), "--runtime", must(exec.LookPath(runtime)), "run", "--bundle", b.dir, b.id+"x")
	check(os.WriteFile(b.dir+"/config.json", text, 0o600))
}

// immutable is a root that the configuration says nobody changes.
func immutable(b *bundle) {
	b.legacy(b.root, "usr/bin/clock")
	b.config = map[string]any{"immutable_roots": "/none," + must(filepath.EvalSymlinks(b.dir))}
}

// written is such a root that gets the program after a first start.
func written(b *bundle) {
	immutable(b)
	b.shell("mv rootfs/usr/bin/clock .")
	b.ready = func() {
		b.first("true")
		b.shell("mv clock rootfs/usr/bin")
	}
}

func must(s string, err error) string {
	check(err)
	return s
}

func annotated(b *bundle, name, value string) {
	b.legacy(b.root, "usr/bin/clock")
	b.at("annotations")[name] = value
}

// saying looks for a word in what is on record.
func saying(word string) func(result) string {
	return func(is result) string {
		if !strings.Contains(is.reason, word) {
			return "the reason is " + is.reason
		}
		return ""
	}
}

// fallback asks for it.
func fallback(b *bundle) {
	annotated(b, "dev.vfix.fallback", "always")
	b.only = "wrapper"
	b.after = func(is result) string {
		left, _ := filepath.Glob(b.host + "/*")
		return saying("fallback")(is) + strings.Join(left, " ")
	}
}

func shared(b *bundle) {
	b.tmpfs(b.host)
	check(unix.Mount("", b.host, "", unix.MS_SHARED, ""))
	b.legacy(b.host, "clock")
	b.run("/data/clock")
}

// mounter is a hook that brings the program, by a script with the paths of the root, the host's directory and the bundle.
func mounter(b *bundle, kind, inside, script string) {
	b.legacy(b.host, "clock")
	b.script(kind, inside, strings.NewReplacer("$ROOT", b.root, "$HOST", b.host, "$BUNDLE", b.dir).Replace(script))
	b.run("/data/clock")
}

// adding has a runtime mount the host's directory as well, which config.json does not say.
func adding(b *bundle, name string) {
	b.mkdir(b.dir, "bin")
	b.via = filepath.Join(b.dir, "bin", name)
	b.file(fmt.Sprintf("#!/bin/sh -e\ncd '%s'\npython3 -c 'import json; c = json.load(open(\"config.json\")); c[\"mounts\"].append({\"destination\": \"/data\", \"type\": \"bind\", \"source\": \"%s\", \"options\": [\"bind\"]}); json.dump(c, open(\"config.json\", \"w\"))'\nexec %s \"$@\"\n", b.dir, b.host, *real), b.via)
	b.run("/data/clock")
}

// handed starts the container through the wrapper with a file as descriptor 3, in the number of --preserve-fds.
func (b *bundle) handed(name, number, program string) {
	f, err := os.Open(name)
	check(err)
	b.undo = append(b.undo, func() { f.Close() })
	b.files, b.only = []*os.File{f}, "wrapper"
	b.run(program)
	b.args = []string{"run", "--preserve-fds", number, "--bundle", b.dir, b.id}
}

// called gives the last hook other arguments.
func called(b *bundle, args ...string) {
	for _, all := range b.at("hooks") {
		list := all.([]any)
		list[len(list)-1].(map[string]any)["args"] = args
	}
}

// dynamic puts a program into the root whose library is in a volume.
func dynamic(b *bundle, library string) {
	b.copy("dynamic", b.root, "usr/bin/clock")
	b.mkdir(b.root, "lib64")
	b.mkdir(b.root, "lib")
	b.shell("cp -L /lib64/ld-linux-x86-64.so.2 rootfs/lib64; cp -L /lib/x86_64-linux-gnu/libc.so.6 rootfs/lib")
	b.copy("libold", b.host, library)
	b.bind("/data", b.host)
}

// forMusl puts a program into the root whose library only musl's loader takes.
func forMusl(b *bundle, library, bound string) {
	b.copy("musl", b.root, "usr/bin/clock")
	b.mkdir(b.root, "lib")
	b.shell("cp -L /lib/ld-musl-x86_64.so.1 rootfs/lib")
	b.copy(library, b.host, "libold.so")
	b.bind("/data"+bound, b.host+bound)
	b.env("LD_LIBRARY_PATH=/data")
}

// agent is a seccomp agent that brings the program.
func agent(b *bundle) {
	socket := filepath.Join(b.dir, "agent")
	listener, err := net.Listen("unix", socket)
	check(err)
	ended := make(chan struct{})
	b.undo = append(b.undo, func() {
		listener.Close()
		<-ended // it writes into the bundle
	})
	go func() {
		defer close(ended)
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1<<10))
			b.legacy(b.root, "data/x")
			check(os.Rename(b.root+"/data/x", b.root+"/data/clock"))
		}
	}()
	notified := map[string]any{"names": []string{"acct"}, "action": "SCMP_ACT_NOTIFY"}
	b.at("linux")["seccomp"] = map[string]any{"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": socket, "syscalls": []any{notified}}
	b.sh("until [ -e /data/clock ]; do /bin/busybox sleep 0.1; done; exec /data/clock")
}

// agentOfCrun is the path of an agent that config.json does not name.
func agentOfCrun(b *bundle) string {
	agent(b)
	path := b.at("linux", "seccomp")["listenerPath"].(string)
	delete(b.at("linux", "seccomp"), "listenerPath")
	return path
}

// denied is a volume with a setuid program, which may not be one.
func denied(b *bundle, file, option string) {
	b.copy("root", b.host, "clock")
	b.shell("chmod 4755 host/clock")
	b.mkdir(b.root, "data")
	if file != "" {
		b.file("", b.root, "data", file)
	}
	b.bind("/data"+file, b.host+file, option)
	b.at("process")["user"] = map[string]any{"uid": 1000, "gid": 1000}
	b.at("process")["noNewPrivileges"] = false
	b.sh("/data/clock; case $? in 3|126) exit 0; esac; exit 1")
}

// changedBelow has a volume on a loop device, or a partition of it, whose file is written to.
func changedBelow(b *bundle, partition string) {
	b.legacy(b.dir, "new")
	b.copy("fine", b.dir, "files/clock")
	b.tmpfs(b.dir, "memory")
	loop := b.shell("truncate -s 64K files/clock new; truncate -s 16M memory/disk; mkfs.ext4 -q -b 4096 -d files memory/disk; losetup --find --show memory/disk")
	b.undo = append(b.undo, func() { _ = exec.Command("losetup", "--detach", loop).Run() })
	if partition != "" {
		b.shell("addpart " + loop + " 1 0 32768")
		b.undo = append(b.undo, func() { b.shell("until delpart " + loop + " 1; do sleep 0.1; done") })
	}
	device := loop + partition
	b.mounted(device, b.host, "ext4", 0, "")
	b.bind("/data", b.host)
	b.run("/data/clock")
	b.ready = func() {
		time.Sleep(1200 * time.Millisecond) // mkfs.ext4 dates files by seconds
		b.first(*real)
		b.unused(device)
		b.shell("at=$(debugfs -R 'blocks clock' memory/disk 2>/dev/null | cut -d ' ' -f 1); dd if=new of=" + device + " bs=4096 seek=$at conv=notrunc,fsync status=none; blockdev --flushbufs " + device)
		check(unix.Mount(device, b.host, "ext4", 0, ""))
	}
}

// unused ends the use of the host's directory as the place of a device, and waits until the first container has ended its own.
func (b *bundle) unused(device string) {
	check(unix.Unmount(b.host, 0))
	for {
		fd, err := unix.Open(device, unix.O_RDONLY|unix.O_EXCL, 0)
		if err == nil {
			unix.Close(fd)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// automounted has a directory bound to a place when somebody looks there (Documentation/filesystems/autofs.rst).
func automounted(b *bundle, at, dir string) {
	r, w, err := os.Pipe()
	check(err)
	b.mounted("auto", at, "autofs", 0, fmt.Sprintf("fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", w.Fd(), unix.Getpgrp()))
	control, err := os.Open(at)
	check(err)
	b.undo = append(b.undo, func() { control.Close(); r.Close(); w.Close() })
	go func() {
		packet := make([]byte, 4<<10)
		for {
			if _, err := r.Read(packet); err != nil {
				return
			}
			if unix.Mount(dir, at, "", unix.MS_BIND, "") == nil {
				b.undo = append(b.undo, func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
			}
			const token, ready = 8, 0x9360 // struct autofs_v5_packet, AUTOFS_IOC_READY
			check(unix.IoctlSetInt(int(control.Fd()), ready, int(binary.LittleEndian.Uint32(packet[token:]))))
		}
	}()
}
