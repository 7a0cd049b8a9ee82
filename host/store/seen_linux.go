// The content of a copy is checked when it is first used after the machine was started, and
// whenever its file changed since: to read it all at each start would cost as much as the rest of
// the start does. It remembers which file was found to be whole: its identity with the
// ctime, which every write moves and nobody can set, and the boot, for a power failure takes
// content away and leaves the times. Nobody but the owner of the store has the file: containers get
// copies (Private), so there are no old mappings to write through either.

package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/rootfs"
)

// seenXattr, of the file that holds the sum of a copy, names the copy that had it. Where the file
// system takes no such attribute the content is read at each start.
const seenXattr = "user.vfix.whole"

// BootID names the time since the machine was started; "" where the kernel does not say.
var BootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// identity names the content of a file in this boot; "" if that is not known.
func identity(path string) string {
	var st unix.Stat_t
	if BootID() == "" || unix.Lstat(path, &st) != nil {
		return ""
	}
	id := rootfs.IdentityOf(&st)
	if id.Unsettled(time.Now()) {
		return ""
	}
	return fmt.Sprint(BootID(), " ", id.Dev, " ", id.Ino, " ", id.Size, " ", id.Mtime, " ", id.Ctime)
}

// seen reports whether the copy with a key was found to be whole as the file that it is now.
func (s *Store) seen(key, identity string) bool {
	b := make([]byte, 256) // bytes; an identity has 110 at most
	n, err := unix.Lgetxattr(filepath.Join(s.Dir, sumsDir, key), seenXattr, b)
	return err == nil && identity != "" && string(b[:n]) == identity
}

// see remembers that the copy at path, which had that identity before it was read, is whole.
func (s *Store) see(key, path, before string) {
	if before != "" && identity(path) == before {
		unix.Lsetxattr(filepath.Join(s.Dir, sumsDir, key), seenXattr, []byte(before), 0) // else it is read again
	}
}
