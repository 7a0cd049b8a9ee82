// Package mounts reads mount tables (proc_pid_mountinfo(5)).
package mounts

import (
	"bytes"

	"github.com/moby/sys/mountinfo"
)

// Read returns the mounts in the text of a table, in its order.
func Read(text []byte) ([]*mountinfo.Info, error) {
	return mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
}
