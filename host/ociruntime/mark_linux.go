// The mark on files that vfix wrote into the upper layer of an overlay, and how a copy that
// was cut off is recognised.

package ociruntime

import (
	"bytes"
	"encoding/hex"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
	"vfix.dev/vfix/host/store"
)

// The mark of a file that vfix wrote into the upper layer of an overlay: an extended attribute
// with the boot that it was written in and the original's SHA-256. Nobody waits for such a file
// to be on the disk: the original is still there, in a lower layer, and a copy that a power
// failure cut off is made again. It is known by its mark, and by its content, which is a part of
// what vfix wrote; times and sizes prove nothing, for an image may have any.
//
// A process in a container needs CAP_SYS_ADMIN on the machine to set the mark, and an image's
// own files are in lower layers, in which it means nothing.
const markXattr = "trusted.vfix.copy"

// setMark marks a file that is being written; false if it cannot be marked.
func setMark(fd int, c *copied) bool {
	return store.BootID() != "" && unix.Fsetxattr(fd, markXattr, []byte(store.BootID()+" "+hex.EncodeToString(c.original)), 0) == nil
}

// markedBefore reports whether a file has the mark of a copy of this original that was written
// before the machine was started: only then may a power failure have cut it off.
func markedBefore(fd int, original []byte) bool {
	b := make([]byte, 256) // bytes; the mark has 101
	n, err := unix.Fgetxattr(fd, markXattr, b)
	if err != nil {
		return false
	}
	boot, sum, _ := strings.Cut(string(b[:n]), " ")
	return store.BootID() != "" && boot != store.BootID() && sum == hex.EncodeToString(original)
}

// partOf reports whether a file is what is on the disk of a copy that was cut off: shorter,
// or with zeros in place of unwritten blocks, and otherwise the same. The whole copy is not one.
func partOf(f *rootfs.File, copied io.ReaderAt, size int64) (bool, error) {
	if f.Stat.Size > size {
		return false, nil
	}
	const block = 512 // bytes; the least that a disk writes
	got, want, zeros := make([]byte, block), make([]byte, block), make([]byte, block)
	whole := f.Stat.Size == size
	for at := int64(0); at < f.Stat.Size; at += block {
		n := min(block, f.Stat.Size-at)
		if _, err := f.ReadAt(got[:n], at); err != nil {
			return false, err
		}
		if _, err := copied.ReadAt(want[:n], at); err != nil {
			return false, err
		}
		if !bytes.Equal(got[:n], want[:n]) {
			if !bytes.Equal(got[:n], zeros[:n]) {
				return false, nil
			}
			whole = false
		}
	}
	return !whole, nil
}
