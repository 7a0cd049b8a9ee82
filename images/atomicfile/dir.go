// Many small outputs in one directory, as the copies of a hotfix and the files that are patched in place: their
// temporary files have names of their own, and their writers share a lock on the directory. If nobody else holds
// that lock, the temporary files found are of runs that were killed.

package atomicfile

import (
	"os"
	"time"
)

// dirPrefix begins the names of files that are written under the lock on their directory.
const dirPrefix = TempPrefix + "in-"

// DirName gives a name that is not in use, for a file in a directory after Enter.
func DirName() string { return dirPrefix + random() }

// enterTime is how long Enter waits while another process holds the lock alone to remove leftovers. Anybody
// who can read a directory can lock it, so nobody waits longer.
const enterTime = time.Second

// Enter shares the lock on a directory until leave, or the end of the process, and removes what killed runs left
// in it if nobody else has the lock. On a file system without locks nothing is removed.
func Enter(root *os.Root) (leave func(), err error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	if lockFile(d) == nil {
		removeLeft(root, d)
	}
	for end := time.Now().Add(enterTime); shareLock(d) == errTaken && time.Now().Before(end); {
		time.Sleep(enterTime / 100)
	}
	return func() { d.Close() }, nil
}

// removeLeft removes what was left in a directory; what cannot be removed stays.
func removeLeft(root *os.Root, d *os.File) {
	names, _ := d.Readdirnames(-1) // with an error, the names read so far
	for _, name := range names {
		if isTemp(name, dirPrefix) {
			_ = root.Remove(name)
		}
	}
}
