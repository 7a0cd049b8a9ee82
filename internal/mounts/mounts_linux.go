// Package mounts reads mount tables (proc_pid_mountinfo(5)).
package mounts

import (
	"bytes"
	"slices"

	"github.com/moby/sys/mountinfo"
)

// Read returns the mounts in the text of a table, in its order. A line that cannot be read hides none
// of the others.
func Read(text []byte) []*mountinfo.Info {
	all, err := mountinfo.GetMountsFromReader(bytes.NewReader(text), nil)
	if err != nil {
		for line := range bytes.Lines(text) {
			if one, err := mountinfo.GetMountsFromReader(bytes.NewReader(line), nil); err == nil {
				all = append(all, one...)
			}
		}
	}
	// The library reads a malformed number as 0, which no mount has.
	return slices.DeleteFunc(all, func(m *mountinfo.Info) bool { return m.ID == 0 })
}
