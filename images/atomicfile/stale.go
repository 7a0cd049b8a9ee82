// The remains of a run that was killed are removed by the next one that writes the same
// output. Only the lock on that output (lock.go) shows that their owner is gone: the writer
// holds it as long as the temporary file exists. So only files made under a lock are
// removed, and their names say which output they belong to.

package atomicfile

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/internal/lazy"
)

// heldPrefix begins the names of temporary files and directories that are made under the lock on
// path: TempPrefix, 16 hex digits of the sha256 of path's last part, and a dash.
func heldPrefix(path string) string {
	sum := sha256.Sum256([]byte(filepath.Base(path)))
	return TempPrefix + hex.EncodeToString(sum[:8]) + "-"
}

// HeldName gives a name beside path that is not in use, for a caller that has the lock on path.
func HeldName(path string) string {
	return filepath.Join(filepath.Dir(path), heldPrefix(path)+random())
}

// isTemp reports whether a name is a temporary one with this prefix.
func isTemp(name, prefix string) bool {
	end, ok := strings.CutPrefix(name, prefix)
	return ok && randomPart().MatchString(end)
}

// randomPart is random's.
var randomPart = lazy.Regexp(`^[0-9a-f]{16}$`)

// layoutIndex and layoutBlobs are what is written in a layout, under the lock on the layout (image-spec, "Image Layout").
const (
	layoutIndex = "index.json"
	layoutBlobs = "blobs"
)

// removeStale removes what killed runs left of path, beside it and, if it is a layout, of its index and among
// its blobs. The caller has just got the lock on path. Files that cannot be removed stay: they do no
// harm.
func removeStale(path string) {
	removeTemps(filepath.Dir(path), heldPrefix(path))
	removeTemps(path, heldPrefix(layoutIndex))
	algorithms, _ := os.ReadDir(filepath.Join(path, layoutBlobs))
	for _, a := range algorithms {
		removeTemps(filepath.Join(path, layoutBlobs, a.Name()), TempPrefix)
	}
}

func removeTemps(dir, prefix string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // it is not a directory, or missing
	}
	for _, e := range entries {
		if isTemp(e.Name(), prefix) {
			RemoveTree(filepath.Join(dir, e.Name()))
		}
	}
}

// RemoveTree removes a directory with all its contents, also those of read-only directories.
func RemoveTree(dir string) {
	filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
	os.RemoveAll(dir)
}
