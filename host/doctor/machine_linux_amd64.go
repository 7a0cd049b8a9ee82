// This machine: vfix-measure runs on it, and its kernel's log is read.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/internal/kernellog"
)

// Run examines this machine.
func Run(ctx context.Context, o Options) (*Report, error) {
	dir, err := probe.NewDir(map[string][]byte{probe.Measure: o.Program})
	if err != nil {
		return nil, err
	}
	defer dir.Remove()
	m := &machine{root: "/", measure: dir.Run, start: dir.Start}
	return m.examine(ctx, o)
}

func checkLog(m *machine, c *Check, _ *Report) error {
	records, booted, err := kernellog.Read(filepath.Join(m.root, "/dev/kmsg"))
	if errors.Is(err, fs.ErrPermission) {
		c.Do = "sudo vfix doctor --check kernel-log"
		return errors.New("only root may read the kernel log here (kernel.dmesg_restrict)")
	}
	if err != nil {
		return err
	}
	judgeLog(c, records, booted)
	return nil
}

// scratch makes a temporary directory on a disk: tmpfs keeps no missing names in the cache (fs/libfs.c,
// simple_lookup).
func (m *machine) scratch() (string, error) {
	errs := []error{errors.New("no directory for a measurement")}
	for _, dir := range []string{os.TempDir(), "/var/tmp", "."} {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", dir, err))
			continue
		}
		if st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC {
			errs = append(errs, fmt.Errorf("%s is in memory, where the kernel caches no missing names", dir))
			continue
		}
		path, err := os.MkdirTemp(dir, ".vfix-doctor-")
		if err == nil {
			return path, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}
