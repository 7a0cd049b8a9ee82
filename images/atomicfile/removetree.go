// Removing a directory that did not become whole.

package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveTree removes a directory with all that is in it, also what is in read-only directories.
func RemoveTree(dir string) {
	filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
	os.RemoveAll(dir)
}
