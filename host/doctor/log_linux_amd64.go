// Where the kernel's log is read from: the kernel itself, the journal, syslog's files.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/kernellog"
)

// logFiles are where syslog daemons write the kernel's messages: Debian's, and Red Hat's.
var logFiles = []string{"/var/log/kern.log", "/var/log/messages"}

// kernelLog returns the lines of the first place that can be read.
func (h *here) kernelLog(ctx context.Context) (lines []kernellog.Line, source string, err error) {
	records, err := kernellog.Read(filepath.Join(h.root, "/dev/kmsg"))
	if err == nil {
		for _, r := range records {
			lines = append(lines, kernellog.Line{Text: r.Text, When: r.When(), Marked: true})
		}
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
		return stripLines(string(b)), path, nil
	}
	return nil, "", errors.Join(errs...)
}

// readJournal asks systemd's journal for the kernel's messages of this boot.
func readJournal(ctx context.Context) ([]kernellog.Line, error) {
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "journalctl", "-k", "--no-pager", "--quiet", "-o", "short-iso")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	return stripLines(string(out)), nil
}

// scratch makes a directory in dir, or, for "", in the first of the usual places that is on a
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
			errs = append(errs, fmt.Errorf("%s is in memory: the kernel does not cache missing names in it", d))
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
