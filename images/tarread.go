package images

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Reading tar streams that nobody vouches for. archive/tar bounds what it allocates
// (PAX records and GNU long names: 1 MiB); this file bounds and cleans the names.

const (
	// maxName is the longest name accepted, in bytes: PATH_MAX of linux/limits.h. No
	// engine could unpack a longer one.
	maxName = 4096
	// maxMembers is how many members one layer or tarball may have. It bounds the memory
	// that an archive of nothing but headers can make vfix use; real layers stay below
	// half a million.
	maxMembers = 4 << 20
	// xattrPrefix is how PAX records name extended attributes (star's convention, taken
	// up by image-spec layer.md, "File Attributes").
	xattrPrefix = "SCHILY.xattr."
	// paxSparse begins the PAX records of GNU tar's sparse formats 0.0, 0.1 and 1.0
	// (GNU tar manual, appendix D.2).
	paxSparse = "GNU.sparse."
)

// tarMember is one member of a tar stream.
type tarMember struct {
	*tar.Header
	// name is cleaned: relative to the root, without "." or ".." in it; "" is the root.
	name string
	// sparse says that Size is what the holes count for, not what the archive holds.
	sparse bool
	number int // in the archive, the first being 1
}

// memberReader yields the members of a tar stream.
type memberReader struct {
	tr *tar.Reader
	n  int
}

func newMemberReader(r io.Reader) *memberReader {
	switch r.(type) {
	case *hashRing, *layerStream, *bufio.Reader:
	default:
		r = bufio.NewReaderSize(r, copyBuffer)
	}
	return &memberReader{tr: tar.NewReader(r)}
}

// Read reads the content of the member that next returned.
func (t *memberReader) Read(p []byte) (int, error) { return t.tr.Read(p) }

// next returns the next member, and io.EOF after the last. An error names the member
// where its name is known.
func (t *memberReader) next() (*tarMember, error) {
	h, err := t.tr.Next()
	if err != nil {
		switch {
		case err == io.EOF:
		case errors.Is(err, tar.ErrFieldTooLong):
			err = damaged("a PAX or long-name record is too long, after %d members", t.n)
		case errors.Is(err, tar.ErrHeader) && t.n == 0:
			err = damaged("not a tar archive")
		case errors.Is(err, tar.ErrHeader):
			err = damaged("damaged tar header after %d members", t.n)
		case errors.Is(err, io.ErrUnexpectedEOF):
			err = damaged("tar archive ends early, after %d members", t.n)
		}
		return nil, err
	}
	if t.n++; t.n > maxMembers {
		return nil, fmt.Errorf("more than %d members", maxMembers)
	}
	e := &tarMember{Header: h, number: t.n}
	if e.name, err = cleanName(h.Name); err != nil {
		return nil, err
	}
	e.sparse = h.Typeflag == tar.TypeGNUSparse
	for k := range h.PAXRecords {
		e.sparse = e.sparse || strings.HasPrefix(k, paxSparse)
	}
	return e, nil
}

// cleanName makes a member's name relative to the root. A leading slash is dropped, as
// engines do; a name that leaves the root is an error, as it is for docker.
func cleanName(name string) (string, error) {
	if len(name) > maxName {
		return "", damaged("%.40q…: name of %d bytes, at most %d", name, len(name), maxName)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", damaged("%q: name with a NUL byte", name)
	}
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", damaged("%s: name leaves the root file system", name)
	}
	if clean == "." {
		return "", nil
	}
	return clean, nil
}

// isRegular reports whether the member has the content of a file.
func (e *tarMember) isRegular() bool {
	switch e.Typeflag {
	case tar.TypeReg, '\x00', tar.TypeGNUSparse, tar.TypeCont:
		return true
	}
	return false
}
