// The stamp file, by which a run of patch knows what an earlier one has seen.

package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// stampMargin is how much earlier than it began a run is remembered. The kernel's clock of
// files is up to a tick behind (ktime_get_coarse_real_ts64), and an archive that the stamp
// goes through may know whole seconds only.
const stampMargin = 2 * time.Second

// stamp is the file by which a run of patch knows what an earlier one has seen.
type stamp struct {
	path  string // "" for none
	began time.Time
	Since time.Time // zero: everything
}

// read finds out since when files must have changed.
func (s *stamp) read(path string) error {
	s.path, s.began = path, time.Now().Add(-stampMargin)
	if path == "" {
		return nil
	}
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file", path)
	}
	if s.Since = fi.ModTime(); s.Since.After(s.began) {
		s.Since = time.Time{} // of another clock
	}
	return nil
}

// set remembers this run.
func (s *stamp) set() error {
	if s.path == "" {
		return nil
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Chtimes(s.path, s.began, s.began)
}
