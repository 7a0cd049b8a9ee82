package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Where the kernel's log is read from: the kernel itself, the journal, syslog's files.

// maxLines bounds what is kept of a log.
const maxLines = 1 << 20

// logFiles are where syslog daemons write the kernel's messages: Debian's, and Red Hat's.
var logFiles = []string{"/var/log/kern.log", "/var/log/messages"}

// kernelLog returns the lines of the first place that can be read.
func (h *here) kernelLog(ctx context.Context) (lines []logLine, source string, err error) {
	lines, err = readKmsg(filepath.Join(h.root, "/dev/kmsg"))
	if err == nil {
		return lines, "/dev/kmsg", nil
	}
	errs := []error{err}
	if lines, err = readJournal(ctx); err == nil && len(lines) > 0 {
		return lines, "journalctl -k", nil
	}
	for _, path := range logFiles {
		b, err := h.read(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for line := range strings.Lines(string(b)) {
			if len(lines) < maxLines {
				lines = append(lines, parseLog(line))
			}
		}
		return lines, path, nil
	}
	return nil, "", errors.Join(errs...)
}

// readKmsg reads all records that the kernel still has.
func readKmsg(path string) ([]logLine, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	const maxRecord = 8192 // a record is at most this long: CONSOLE_EXT_LOG_MAX
	buf := make([]byte, maxRecord)
	var lines []logLine
	for range maxLines {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			continue // records were overwritten: the next read is at the oldest
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return lines, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if l, ok := parseKmsg(string(buf[:n])); ok {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// readJournal asks systemd's journal for the kernel's messages of this boot.
func readJournal(ctx context.Context) ([]logLine, error) {
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "journalctl", "-k", "--no-pager", "--quiet", "-o", "short-iso")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var lines []logLine
	for line := range strings.Lines(string(out)) {
		if len(lines) < maxLines {
			lines = append(lines, parseLog(line))
		}
	}
	return lines, nil
}

// scratch makes a folder in dir, or, for "", in the first of the usual places that is on a
// disk: tmpfs and ramfs keep no missing names in the cache (fs/libfs.c, simple_lookup).
func (h *here) scratch(dir string) (path string, remove func() error, err error) {
	dirs := []string{dir}
	if dir == "" {
		dirs = []string{os.TempDir(), "/var/tmp", "/tmp", "."}
	}
	errs := []error{errNoScratch}
	for _, d := range dirs {
		var st unix.Statfs_t
		if err := unix.Statfs(d, &st); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d, err))
			continue
		}
		if st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC {
			errs = append(errs, fmt.Errorf("%s is in memory, and the kernel keeps no missing names of it", d))
			continue
		}
		path, err := os.MkdirTemp(d, ".vfix-doctor-")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return path, func() error { return os.RemoveAll(path) }, nil
	}
	return "", nil, errors.Join(errs...)
}
