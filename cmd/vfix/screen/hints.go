// The table from errors to hints: what a user can do about an error.

package screen

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"

	"vfix.dev/vfix/internal/hinterr"
)

// hintTable has the hints for errors that carry none. The first matching row wins, so specific rows come
// before general ones.
var hintTable = []struct {
	is   error
	hint string
}{
	{syscall.EIO, "the disk or its file system reports an error: see dmesg, then run the command again"}, // before the errors it causes
	{hinterr.ErrNoDaemon, "start the daemon, check the spelling, or add a prefix: see 'vfix help sources'"},
	{hinterr.ErrUnauthorized, "run 'docker login' for that registry; vfix uses the same credentials"},
	{hinterr.ErrPlatform, "vfix patches linux/amd64; choose an image that has it, or a variant with --platform"},
	{hinterr.ErrDamaged, "the file is corrupt or not what it claims to be; download or rebuild it"},
	{hinterr.ErrUnsupported, "see 'vfix help sources' for the supported formats"},
	{hinterr.ErrNotFound, "check the spelling; see 'vfix help sources'"},
	{syscall.ENOSPC, "free some space, or choose another place with -o; temporary files go to TMPDIR"},
	{syscall.EROFS, "the filesystem is read-only: choose another place with -o"},
	{syscall.EISDIR, "this is a directory: name a file"},
	{syscall.ENOTDIR, "a part of this path is a file, not a directory: name a directory"},
	{syscall.ENAMETOOLONG, "choose a shorter name: vfix adds to it for temporary files"},
	{fs.ErrPermission, "run vfix as the owner of the file, or as root"},
	{fs.ErrExist, "remove it first, or choose another place"},
	{fs.ErrNotExist, "check the spelling; see 'vfix help sources'"},
	{context.DeadlineExceeded, "no answer in time: try again"},
	{os.ErrDeadlineExceeded, "no answer in time: try again"},
	{syscall.ECONNREFUSED, "check the address, and that the daemon or registry is running"},
	{syscall.ECONNRESET, "the connection was closed: try again"},
	{io.ErrUnexpectedEOF, "the file or the connection ended too early: download it again, or try again"},
}

// HintOf returns what a user can do about err: its own hint, else the table's; issues is where
// a bug is reported.
func HintOf(err error, issues string) string {
	if own := hinterr.HintOf(err); own != "" {
		return own
	}
	for _, row := range hintTable {
		if errors.Is(err, row.is) {
			return row.hint
		}
	}
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return "check the name of the registry and this machine's DNS"
	case errors.As(err, &op):
		return "check the address, and that this machine can reach the daemon or registry"
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return "the operating system refuses this: check the limits (ulimit -a) and the file system (mount, dmesg)"
	}
	return "if this is a bug in vfix, report it at " + issues + " with the output of 'vfix version'"
}
