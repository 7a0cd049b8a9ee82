// The table from errors to hints: what a user can do about an error.

package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"vfix.dev/vfix/internal/hinterr"
)

// hintTable says what to do about an error that carries no hint of its own. The first
// row that matches wins, so the particular stands before the general.
var hintTable = []struct {
	is   error
	hint string
}{
	{hinterr.ErrNoDaemon, "check the name, start the daemon, or say with a prefix what it is: see 'vfix help sources'"},
	{hinterr.ErrUnauthorized, "run 'docker login' for that registry; vfix uses the same credentials"},
	{hinterr.ErrPlatform, "vfix patches linux/amd64; name an image that has it, or a variant with --platform"},
	{hinterr.ErrDamaged, "fetch or build it again; what it says of itself is not what it contains"},
	{hinterr.ErrUnsupported, "'vfix help sources' lists what vfix reads and writes"},
	{hinterr.ErrNotFound, "check the name; 'vfix help sources' says how sources are written"},
	{syscall.ENOSPC, "make room on that disk, or name another place with -o; temporary files follow TMPDIR"},
	{syscall.EROFS, "the place is read-only: name another one with -o"},
	{fs.ErrPermission, "run vfix as the owner of the file, or as root"},
	{fs.ErrExist, "remove it first, or name another place"},
	{fs.ErrNotExist, "check the name; 'vfix help sources' says how sources are written"},
	{context.DeadlineExceeded, "the other side did not answer in time: try again"},
	{os.ErrDeadlineExceeded, "the other side did not answer in time: try again"},
	{syscall.ECONNREFUSED, "nothing listens there: check the address, and that the daemon or registry runs"},
	{syscall.ECONNRESET, "the other side hung up: try again"},
	{io.ErrUnexpectedEOF, "it ended too early: a cut-off file must be fetched again, a broken connection tried again"},
}

// HintOf returns what a user can do about err: the error's own word, else the table's.
func hintOf(err error) string {
	var own interface{ Hint() string }
	if errors.As(err, &own) && own.Hint() != "" {
		return own.Hint()
	}
	if dir := os.TempDir(); errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), dir+string(os.PathSeparator)) {
		if _, statErr := os.Stat(dir); errors.Is(statErr, fs.ErrNotExist) {
			return "temporary files go to " + dir + ", which does not exist: set TMPDIR to a directory that does"
		}
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
		return "check the name of the registry, and that this machine reaches it"
	case errors.As(err, &op):
		return "check the address, and that the daemon or registry is reached from here"
	}
	return "if this is a bug in vfix, report it at " + issues + " with the output of 'vfix version'"
}
