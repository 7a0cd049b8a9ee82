// The part of disk_unix.go for macOS.

package contents

import "os"

// Special returns false: no directory of a walk is on a special file system here.
func Special(*os.File) bool { return false }
