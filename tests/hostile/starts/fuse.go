package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// liar is a file system whose server is this program (linux/fuse.h, version 7.31). It shows a directory of this machine,
// except for its lies. Nothing that it says is kept by the kernel.
type liar struct {
	dir string
	// Its lies; vfix reports who asks, n how often somebody has asked for that file. Any may be nil.
	content func(path string, vfix bool) string                  // the file of this machine with the bytes
	hides   func(path string, n int) bool                        // from a lookup
	lists   func(path string, vfix bool, kind byte) (byte, bool) // the type that a directory's list says, and whether it is listed
	status  func(path string, n int, st *unix.Stat_t)

	fd    int
	mu    sync.Mutex
	paths []string // by node, from 1
	files []*os.File
	times map[string]int
}

// mounted by a server until the bundle's end.
func (b *bundle) lying(l *liar, at string) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	check(err)
	l.fd, l.paths, l.files, l.times = fd, []string{"", l.dir}, nil, map[string]int{}
	b.mounted("liar", at, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd))
	go l.serve()
}

// Operations, from linux/fuse.h.
const (
	opLookup, opForget, opGetattr, opReadlink = 1, 2, 3, 5
	opOpen, opRead, opStatfs, opRelease       = 14, 15, 17, 18
	opFlush, opInit, opOpendir, opReaddir     = 25, 26, 27, 28
	opReleasedir, opInterrupt, opBatchForget  = 29, 36, 42
)

// The sizes of struct fuse_in_header, fuse_out_header and fuse_attr, in bytes.
const inHeader, outHeader, attrSize = 40, 16, 88

func (l *liar) serve() {
	le := binary.LittleEndian
	in := make([]byte, 1<<20)
	for {
		n, err := unix.Read(l.fd, in)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOENT):
			continue
		case err != nil: // it is not mounted any more
			unix.Close(l.fd)
			return
		}
		op, node, pid := le.Uint32(in[4:]), le.Uint64(in[16:]), le.Uint32(in[32:])
		if op == opForget || op == opBatchForget || op == opInterrupt {
			continue
		}
		answer, errno := l.answer(op, node, isVfix(pid), in[inHeader:n])
		out := make([]byte, outHeader, outHeader+len(answer))
		le.PutUint32(out, uint32(outHeader+len(answer)))
		le.PutUint32(out[4:], uint32(-int32(errno)))
		copy(out[8:], in[8:16])
		_, _ = unix.Write(l.fd, append(out, answer...))
	}
}

// isVfix reports whether a process is vfix-runtime. A look at its program would wait for the answer to a request.
func isVfix(pid uint32) bool {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return bytes.HasPrefix(name, []byte("vfix-"))
}

func (l *liar) answer(op uint32, node uint64, vfix bool, in []byte) ([]byte, unix.Errno) {
	le := binary.LittleEndian
	path := l.path(node)
	switch op {
	case opInit:
		out := make([]byte, 64)
		for i, v := range []uint32{7, 31, 1 << 17} {
			le.PutUint32(out[4*i:], v)
		}
		le.PutUint32(out[20:], 1<<17) // max_write
		return out, 0
	case opLookup:
		name := string(in[:bytes.IndexByte(in, 0)])
		below := filepath.Join(path, name)
		if l.hides != nil && l.hides(l.inside(below), l.count("lookup "+below)) {
			return nil, unix.ENOENT
		}
		attr, errno := l.attr(below)
		if errno != 0 {
			return nil, errno
		}
		out := make([]byte, 40)
		le.PutUint64(out, l.node(below))
		return append(out, attr...), 0
	case opGetattr:
		attr, errno := l.attr(path)
		return append(make([]byte, 16), attr...), errno
	case opReadlink:
		to, err := os.Readlink(path)
		return []byte(to), errnoOf(err)
	case opOpen:
		from := path
		if l.content != nil {
			from = l.content(l.inside(path), vfix)
		}
		f, err := os.Open(from)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.files = append(l.files, f)
		out := make([]byte, 16)
		le.PutUint64(out, uint64(len(l.files)-1))
		return out, errnoOf(err)
	case opOpendir:
		return make([]byte, 16), 0
	case opReleasedir, opFlush:
		return nil, 0
	case opRelease:
		l.file(in).Close()
		return nil, 0
	case opRead:
		b := make([]byte, le.Uint32(in[16:]))
		n, _ := l.file(in).ReadAt(b, int64(le.Uint64(in[8:])))
		return b[:n], 0
	case opReaddir:
		return l.list(path, vfix, le.Uint64(in[8:]), int(le.Uint32(in[16:])))
	case opStatfs:
		return make([]byte, 80), 0
	}
	return nil, unix.ENOSYS
}

func (l *liar) path(node uint64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if node >= uint64(len(l.paths)) {
		return ""
	}
	return l.paths[node]
}

func (l *liar) node(path string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, p := range l.paths {
		if p == path {
			return uint64(i)
		}
	}
	l.paths = append(l.paths, path)
	return uint64(len(l.paths) - 1)
}

func (l *liar) file(in []byte) *os.File {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files[binary.LittleEndian.Uint64(in)]
}

func (l *liar) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[what]++
	return l.times[what]
}

func (l *liar) inside(path string) string { return strings.TrimPrefix(path, l.dir+"/") }

// attr is the struct fuse_attr of a path.
func (l *liar) attr(path string) ([]byte, unix.Errno) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return nil, errnoOf(err)
	}
	if l.status != nil {
		l.status(l.inside(path), l.count("status "+path), &st)
	}
	le := binary.LittleEndian
	out := make([]byte, attrSize)
	for i, v := range []uint64{st.Ino, uint64(st.Size), uint64(st.Blocks), uint64(st.Atim.Sec), uint64(st.Mtim.Sec), uint64(st.Ctim.Sec)} {
		le.PutUint64(out[8*i:], v)
	}
	for i, v := range []uint32{uint32(st.Atim.Nsec), uint32(st.Mtim.Nsec), uint32(st.Ctim.Nsec), st.Mode, uint32(st.Nlink), st.Uid, st.Gid, uint32(st.Rdev), 4096} {
		le.PutUint32(out[48+4*i:], v)
	}
	return out, 0
}

// list is a part of a directory, as struct fuse_dirent each.
func (l *liar) list(path string, vfix bool, from uint64, size int) ([]byte, unix.Errno) {
	all, err := os.ReadDir(path)
	if err != nil {
		return nil, errnoOf(err)
	}
	le := binary.LittleEndian
	var out []byte
	for i := int(from); i < len(all); i++ {
		name := all[i].Name()
		kind := byte(unix.DT_REG)
		switch {
		case all[i].IsDir():
			kind = unix.DT_DIR
		case all[i].Type()&os.ModeSymlink != 0:
			kind = unix.DT_LNK
		}
		if l.lists != nil {
			var listed bool
			if kind, listed = l.lists(l.inside(filepath.Join(path, name)), vfix, kind); !listed {
				continue
			}
		}
		one := make([]byte, (24+len(name)+7)&^7)
		if len(out)+len(one) > size {
			break
		}
		le.PutUint64(one, uint64(i+1)) // an inode number that says nothing
		le.PutUint64(one[8:], uint64(i+1))
		le.PutUint32(one[16:], uint32(len(name)))
		le.PutUint32(one[20:], uint32(kind))
		copy(one[24:], name)
		out = append(out, one...)
	}
	return out, 0
}

func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if err != nil && !errors.As(err, &errno) {
		return unix.EIO
	}
	return errno
}
