package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/starts"
)

// filesystems are bundles whose files come from a file system that shows vfix and the container different things.
var filesystems = []row{
	{"servers", "other bytes for vfix", honest, func(b *bundle) {
		lie(b, &liar{content: func(path string, vfix bool) string {
			if vfix {
				return b.host + "/fine"
			}
			return b.host + "/clock"
		}})
	}},
	{"servers", "a name that is not listed", honest, func(b *bundle) {
		lie(b, &liar{lists: func(path string, _ bool, kind byte) (byte, bool) { return kind, path != "clock" }})
	}},
	{"servers", "a name that is not there at first", honest, func(b *bundle) {
		lie(b, &liar{hides: func(path string, n int) bool { return path == "clock" && n == 1 }})
		b.sh("/data/clock; [ $? = 127 ] || exit 1; exec /data/clock") // without vfix as well
	}},
	{"servers", "a name that is listed as a symlink", honest, func(b *bundle) {
		lie(b, &liar{lists: func(path string, _ bool, kind byte) (byte, bool) { return unix.DT_LNK, true }})
	}},
	{"servers", "the numbers of another file", honest, func(b *bundle) {
		lie(b, &liar{status: func(path string, _ int, st *unix.Stat_t) {
			if path != "" {
				st.Ino, st.Nlink, st.Size, st.Mtim, st.Ctim = 5, 2, 64<<10, unix.Timespec{Sec: 1e9}, unix.Timespec{Sec: 1e9}
			}
		}})
	}},
	{"servers", "another status at each look", honest, func(b *bundle) {
		lie(b, &liar{status: func(path string, n int, st *unix.Stat_t) { st.Mtim.Nsec = int64(n) }})
	}},
	{"servers", "a root", honest, func(b *bundle) { lyingRoot(b, b.root) }},
	{"servers", "a layer of a root", honest, func(b *bundle) {
		b.tmpfs(b.dir, "layers")
		b.shell("mkdir layers/upper layers/work layers/lower")
		lyingRoot(b, b.dir+"/layers/lower")
		b.overlayOf("", b.dir+"/layers/lower")
	}},
	{"servers", "one file", honest, func(b *bundle) {
		lie(b, &liar{content: func(path string, vfix bool) string {
			if vfix {
				return "/etc/hostname"
			}
			return b.host + "/clock"
		}})
		b.file("", b.root, "tmp/clock")
		b.bind("/tmp/clock", b.dir+"/shown/clock")
		b.spec["mounts"] = slices.DeleteFunc(b.spec["mounts"].([]any), func(m any) bool { return m.(map[string]any)["destination"] == "/data" })
		b.run("/tmp/clock")
	}},
	// Nobody can execute what is there.
	{"servers", "not executable", unchanged, func(b *bundle) {
		lie(b, &liar{})
		b.spec["mounts"] = slices.DeleteFunc(b.spec["mounts"].([]any), func(m any) bool { return m.(map[string]any)["destination"] == "/data" })
		b.bind("/data", b.dir+"/shown", "noexec")
		b.sh("/data/clock; [ $? = 126 ]")
		b.after = func(is result) string {
			if is.outcome != starts.Patched && is.outcome != starts.Clean && is.outcome != "" {
				return fmt.Sprintf("recorded as %q: %s", is.outcome, is.reason)
			}
			return ""
		}
	}},
	{"servers", "one that the operator trusts", patched, func(b *bundle) {
		lie(b, &liar{})
		b.trust("9p,fuse")
	}},
	{"servers", "one that the operator trusts, and a name that is listed as a symlink", patched, func(b *bundle) {
		lie(b, &liar{lists: func(path string, _ bool, kind byte) (byte, bool) { return unix.DT_LNK, true }})
		b.trust("fuse")
	}},

	// Images that no mkfs makes. A directory also has the type of each name, for its list alone.
	{"images", "ext4, with a name of another type", patched, func(b *bundle) {
		b.legacy(b.dir, "files/clock")
		b.shell("truncate -s 16M disk; mkfs.ext4 -q -O ^metadata_csum -d files disk")
		forge(b, "\x05\x01clock", "\x05\x07clock", 1)
		onLoop(b, "ext4")
	}},
	// The kernel keeps one file for each number: what has been read last of the two is not what will be read next.
	{"images", "squashfs, with one number for two files", honest, func(b *bundle) {
		b.copy("fine", b.dir, "files/a")
		b.legacy(b.dir, "files/clock")
		b.shell("truncate -s 64K files/*; touch -d @1000000000 files/*; mksquashfs files disk -noI -noD -noF -no-xattrs -quiet >/dev/null")
		sameNumber(b)
		onLoop(b, "squashfs")
		b.writable()
		b.sh(": >/begun; until [ -e /go ]; do /bin/busybox sleep 0.1; done; exec /data/clock")
		b.ready = func() { go forget(b, b.host+"/a") }
	}},

	{"erofs", "volume", patched, func(b *bundle) {
		b.legacy(b.dir, "files/clock")
		b.shell("mkfs.erofs -T 1 disk files")
		onLoop(b, "erofs")
	}},
	{"erofs", "volume, with a name of another type", patched, func(b *bundle) {
		b.legacy(b.dir, "files/clock")
		b.shell("mkfs.erofs -T 1 -E nosbcrc disk files")
		erofsType(b)
		onLoop(b, "erofs")
	}},
	{"erofs", "an image in place of another that has the same times", honest, func(b *bundle) {
		b.legacy(b.dir, "new/clock")
		b.copy("fine", b.dir, "old/clock")
		b.shell("truncate -s 64K old/clock new/clock; for i in old new; do mkfs.erofs -T 1 -U 00000000-0000-0000-0000-000000000001 $i.img $i; done; cp old.img disk")
		loop := onLoop(b, "erofs")
		b.ready = func() {
			b.first(*real)
			b.unused(loop)
			b.shell("dd if=new.img of=" + loop + " conv=fsync status=none; blockdev --flushbufs " + loop)
			check(unix.Mount(loop, b.host, "erofs", unix.MS_RDONLY, ""))
		}
	}},
	{"erofs", "root", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.shell("mkfs.erofs -T 1 disk rootfs")
		b.mounted(b.loop(), b.root, "erofs", unix.MS_RDONLY, "")
	}},
	{"erofs", "layer", patched, func(b *bundle) {
		b.legacy(b.root, "usr/bin/clock")
		b.shell("mkfs.erofs -T 1 disk rootfs")
		b.tmpfs(b.dir, "layers")
		b.shell("mkdir layers/upper layers/work layers/lower")
		b.mounted(b.loop(), b.dir+"/layers/lower", "erofs", unix.MS_RDONLY, "")
		b.overlayOf("", b.dir+"/layers/lower")
	}},
}

func (b *bundle) trust(kind string) { b.config = map[string]any{"trusted_filesystems": kind} }

// lyingRoot has a root whose program the server shows others than vfix.
func lyingRoot(b *bundle, at string) {
	b.legacy(b.root, "usr/bin/clock")
	b.copy("fine", b.dir, "fine")
	b.shell("mv rootfs real; mkdir rootfs")
	b.lying(&liar{dir: b.dir + "/real", content: func(path string, vfix bool) string {
		if vfix && path == "usr/bin/clock" {
			return b.dir + "/fine"
		}
		return b.dir + "/real/" + path
	}}, at)
}

// forge replaces bytes in the file of a disk.
func forge(b *bundle, old, new string, times int) {
	disk, err := os.ReadFile(b.dir + "/disk")
	check(err)
	if n := bytes.Count(disk, []byte(old)); n != times {
		panic(fmt.Sprintf("%q is %d times in the disk, want %d", old, n, times))
	}
	check(os.WriteFile(b.dir+"/disk", bytes.ReplaceAll(disk, []byte(old), []byte(new)), 0o600))
}

// sameNumber gives the file clock of a squashfs the number of the file a, which is listed before it
// (fs/squashfs/squashfs_fs.h, struct squashfs_dir_entry: each name is behind offset, number, type and size).
func sameNumber(b *bundle) {
	disk, err := os.ReadFile(b.dir + "/disk")
	check(err)
	const entry, number, size = 8, 2, 2 // bytes
	second := bytes.Index(disk, []byte("clock")) - entry
	first := second - entry - len("a")
	copy(disk[second+number:][:size], disk[first+number:])
	check(os.WriteFile(b.dir+"/disk", disk, 0o600))
}

// forget has the kernel forget a file, and others that nobody uses, when the container has begun, and lets it go on then.
func forget(b *bundle, path string) {
	for !exists(b.root + "/begun") {
		if !exists(b.dir) { // it did not start
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	f, err := os.Open(path)
	check(err)
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	f.Close()
	check(os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0))
	b.file("", b.root, "go")
}

func (b *bundle) loop() string {
	out, err := exec.Command("losetup", "--find", "--show", b.dir+"/disk").Output()
	check(err)
	loop := strings.TrimSpace(string(out))
	b.undo = append(b.undo, func() { _ = exec.Command("losetup", "--detach", loop).Run() })
	return loop
}

// onLoop has a volume on the bundle's disk.
func onLoop(b *bundle, kind string) (loop string) {
	loop = b.loop()
	b.mounted(loop, b.host, kind, unix.MS_RDONLY, "")
	b.bind("/data", b.host)
	b.run("/data/clock")
	return loop
}

// lie has a volume with two programs, by a server that lies.
func lie(b *bundle, l *liar) {
	b.legacy(b.host, "clock")
	b.copy("fine", b.host, "a")
	b.copy("fine", b.host, "fine")
	l.dir = b.host
	at := b.mkdir(b.dir, "shown")
	b.lying(l, at)
	b.bind("/data", at)
	b.run("/data/clock")
}

// erofsType gives the file clock the type of a symlink in its directory (fs/erofs/erofs_fs.h, struct erofs_dirent:
// an inode's number in 8 bytes, the offset of the name in 2, the type and a reserved byte; the names follow all).
func erofsType(b *bundle) {
	disk, err := os.ReadFile(b.dir + "/disk")
	check(err)
	const entry, kind, symlink = 12, 10, 7
	names := strings.Index(string(disk), "...clock") // of the three entries
	if names < 3*entry {
		panic("no directory in the image")
	}
	disk[names-entry+kind] = symlink
	check(os.WriteFile(b.dir+"/disk", disk, 0o600))
}
