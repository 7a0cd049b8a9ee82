package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// held makes a buffer of io_uring (linux/io_uring.h) hold the pages of a file, which nobody has open or mapped then. The
// returned function writes to them.
func (b *bundle) held(path string) (write func(text []byte)) {
	const (
		setup, register, enter     = 425, 427, 426 // system calls
		registerBuffers, readFixed = 0, 4
		wait, entries              = 1, 4
		ring, requests             = 0, 0x10000000 // offsets to map
	)
	call := func(number uintptr, args ...uintptr) uintptr {
		args = append(args, make([]uintptr, 6-len(args))...)
		n, _, err := unix.Syscall6(number, args[0], args[1], args[2], args[3], args[4], args[5])
		if err != 0 {
			panic(err)
		}
		return n
	}
	le := binary.LittleEndian
	parameters := make([]byte, 120)
	fd := int(call(setup, entries, uintptr(unsafe.Pointer(&parameters[0]))))
	b.undo = append(b.undo, func() { unix.Close(fd) })
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(err)
	st, err := f.Stat()
	check(err)
	m, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(err)
	m[0]++
	m[0]--
	buffer := unix.Iovec{Base: &m[0], Len: uint64(len(m))}
	call(register, uintptr(fd), registerBuffers, uintptr(unsafe.Pointer(&buffer)), 1)
	at := uintptr(unsafe.Pointer(&m[0]))
	check(unix.Munmap(m))
	check(f.Close())
	return func(text []byte) {
		from, err := unix.MemfdCreate("text", 0)
		check(err)
		defer unix.Close(from)
		_, err = unix.Write(from, text)
		check(err)
		queue, err := unix.Mmap(fd, ring, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		check(err)
		r, err := unix.Mmap(fd, requests, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		check(err)
		r[0] = readFixed
		le.PutUint32(r[4:], uint32(from))
		le.PutUint64(r[16:], uint64(at))
		le.PutUint32(r[24:], uint32(len(text)))
		le.PutUint32(queue[le.Uint32(parameters[44:]):], 1) // the tail; the array behind it has 0
		call(enter, uintptr(fd), 1, 1, wait)
	}
}

// device is a block device that is not on a file, if the machine has zram, with a file system.
func (b *bundle) device(mkfs string) string {
	const control = "/sys/class/zram-control/"
	n, err := os.ReadFile(control + "hot_add") // which makes it
	if err != nil {
		loop := b.shell("truncate -s 64M disk; losetup --find --show disk")
		b.undo = append(b.undo, func() { b.shell("losetup --detach " + loop) })
		b.shell(mkfs + " " + loop)
		return loop
	}
	name := "zram" + strings.TrimSpace(string(n))
	b.undo = append(b.undo, func() {
		b.shell("until echo 1 >/sys/block/" + name + "/reset; do sleep 0.1; done; echo " + name[4:] + " >" + control + "hot_remove")
	})
	b.shell("echo 64M >/sys/block/" + name + "/disksize; " + mkfs + " /dev/" + name)
	return "/dev/" + name
}

// encrypted makes a directory whose names and files nobody can read before unlock is called (linux/fscrypt.h).
func (b *bundle) encrypted(at string) (lock, unlock func()) {
	const addKey, setPolicy, removeKey = 0xc0506617, 0x800c6613, 0xc0406618
	call := func(path string, number uintptr, text []byte) {
		dir, err := os.Open(path)
		check(err)
		defer dir.Close()
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), number, uintptr(unsafe.Pointer(&text[0]))); errno != 0 {
			panic(errno)
		}
	}
	const byID, keySize, text, id = 2, 64, 80, 8 // the type of a key's name; sizes and offsets in bytes
	key := make([]byte, text+keySize)
	unlock = func() {
		clear(key[id:])
		key[0], key[40] = byID, keySize
		call(filepath.Dir(at), addKey, key)
	}
	unlock()
	name := key[id : id+16]
	call(b.mkdir(at), setPolicy, append([]byte{2, 1, 4, 0, 0, 0, 0, 0}, name...)) // version 2, AES-256
	lock = func() {
		b.shell("sync")
		call(filepath.Dir(at), removeKey, append(append([]byte{byID, 0, 0, 0, 0, 0, 0, 0}, name...), make([]byte, 40)...))
	}
	return lock, unlock
}
