// Writing a record: one write(2) to a file that is opened for it, or one datagram to the journal. This replaces
// coreos/go-systemd: no value here has a line break, so the protocol is NAME=VALUE lines (systemd,
// docs/JOURNAL_NATIVE_PROTOCOL.md).

package starts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// journalSocket is the socket of journald.
var journalSocket = "/run/systemd/journal/socket"

// maxFile is the size at which the file of records is renamed to FILE.1, in bytes: at most two of them are kept,
// even if nothing else rotates them.
var maxFile int64 = 16 << 20

const (
	dirMode  = 0o750
	fileMode = 0o640
)

// Log is the destination of records.
type Log struct {
	Record  string // an absolute path, Journal, or None
	Metrics string // an absolute path, "" for none
}

// Add records one start.
func (l Log) Add(r *Record) error {
	var errs []error
	if l.Record != None && l.Record != "" {
		if err := l.record(r); err != nil {
			errs = append(errs, fmt.Errorf("record: %w", err))
		}
	}
	if l.Metrics != "" {
		if err := count(l.Metrics, r); err != nil {
			errs = append(errs, fmt.Errorf("metrics: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (l Log) record(r *Record) error {
	line, err := r.line()
	if err != nil {
		return err
	}
	if l.Record == Journal {
		return toJournal(r, line)
	}
	f, err := open(l.Record)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(line)
	return err
}

// open opens the file of records for appending. It does not wait for a file that is not regular.
func open(path string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | unix.O_NONBLOCK | unix.O_NOFOLLOW
	f, err := os.OpenFile(path, flags, fileMode)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, flags, fileMode)
	}
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if fi.Size() < maxFile || !rotate(f, fi, path) {
		return f, nil
	}
	f.Close()
	return os.OpenFile(path, flags, fileMode)
}

// rotate renames the file to FILE.1, unless another process just has.
func rotate(f *os.File, is os.FileInfo, path string) bool {
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	named, _ := os.Lstat(path)
	return os.SameFile(is, named) && os.Rename(path, path+".1") == nil
}

func toJournal(r *Record, line []byte) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const notice, warning = 5, 4 // syslog(3)
	priority := notice
	if len(r.Problems) > 0 || r.Outcome == Refused || r.Outcome == Unpatched {
		priority = warning
	}
	text := fmt.Appendf(nil, "SYSLOG_IDENTIFIER=%s\nPRIORITY=%d\nVFIX_OUTCOME=%s\nMESSAGE=", identifier, priority, r.Outcome)
	if err := unix.Sendto(fd, append(text, line...), unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: journalSocket}); err != nil {
		return fmt.Errorf("%s: %w", journalSocket, err)
	}
	return nil
}
