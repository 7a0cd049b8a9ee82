// The program vfix-runtime, which a vfix for linux/amd64 carries. It is taken out of the bytes of the vfix that
// is installed, whichever that is, so the two are of one version.

package install

import (
	"bytes"

	"vfix.dev/vfix/internal/carried"
	"vfix.dev/vfix/internal/hinterr"
)

// runtimeIn returns the vfix-runtime in a vfix; nil if that was built without one. A link to that
// vfix does the same work then, more slowly.
func runtimeIn(vfix []byte) ([]byte, error) {
	for _, p := range carried.In(vfix) {
		if p.Name != runtimeName {
			continue
		}
		program, err := p.Unpack(maxFile)
		if err == nil && !isProgram(program) {
			err = hinterr.Errorf(hinterr.ErrDamaged, "not a Linux program")
		}
		return program, err
	}
	return nil, nil
}

// isProgram reports whether a file is, by its head and size, one that can be installed.
func isProgram(data []byte) bool {
	return len(data) <= maxFile && bytes.HasPrefix(data, []byte("\x7fELF"))
}
