// The program vfix-runtime, which a vfix for linux/amd64 has in it: a line that begins with a mark,
// and what gzip(1) makes of the program. It is taken out of the bytes of the vfix that is
// installed, whichever that is, so the two are of one version.

package install

import (
	"bytes"
	"compress/gzip"
	"io"
)

// runtimeMark begins the line, with a capital V: in small letters it is not found here.
const runtimeMark = "vfix-runtime, compressed\n"

// runtimeIn returns the vfix-runtime in a vfix; nil where that was built without one. A link to that
// vfix does the same work then, more slowly.
func runtimeIn(vfix []byte) ([]byte, error) {
	mark := []byte(runtimeMark)
	mark[0] = 'V'
	_, packed, found := bytes.Cut(vfix, mark)
	if !found {
		return nil, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	z.Multistream(false) // behind it is the rest of vfix
	program, err := io.ReadAll(io.LimitReader(z, maxProgram+1))
	if err == nil && !isProgram(program) {
		err = errorf(ErrDamaged, "not a Linux program")
	}
	return program, err
}

// isProgram reports whether a file is, by its head and size, one that can be installed.
func isProgram(data []byte) bool {
	return len(data) <= maxProgram && bytes.HasPrefix(data, []byte("\x7fELF"))
}
