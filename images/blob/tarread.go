// Reading tar streams that nobody vouches for. archive/tar bounds what it allocates
// (PAX records and GNU long names: 1 MiB); this file bounds and cleans the names.

package blob

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

const (
	// MaxName is the longest name accepted, in bytes: PATH_MAX of linux/limits.h. No
	// engine could unpack a longer one.
	MaxName = 4096
	// maxMembers is how many members one layer or tarball may have. It bounds the memory
	// that an archive of nothing but headers can make vfix use; real layers stay below
	// half a million.
	maxMembers = 4 << 20
	// XattrPrefix is how PAX records name extended attributes (star's convention, taken
	// up by image-spec layer.md, "File Attributes").
	XattrPrefix = "SCHILY.xattr."
	// paxSparse begins the PAX records of GNU tar's sparse formats 0.0, 0.1 and 1.0
	// (GNU tar manual, appendix D.2).
	paxSparse = "GNU.sparse."
)

// TarMember is one member of a tar stream.
type TarMember struct {
	*tar.Header
	// Path is the cleaned name: relative to the root, without "." or ".." in it; "" is the root.
	Path string
	// Sparse says that Size is what the holes count for, not what the archive holds.
	Sparse bool
	Number int // in the archive, the first being 1
}

// MemberReader yields the members of a tar stream.
type MemberReader struct {
	tr *tar.Reader
	n  int
}

// NewMemberReader reads a tar stream, buffered if r is not.
func NewMemberReader(r io.Reader) *MemberReader {
	switch r.(type) {
	case *hashRing, *layerStream, *bufio.Reader:
	default:
		r = bufio.NewReaderSize(r, CopyBuffer)
	}
	return &MemberReader{tr: tar.NewReader(r)}
}

// Read reads the content of the member that next returned.
func (t *MemberReader) Read(p []byte) (int, error) { return t.tr.Read(p) }

// Next returns the next member, and io.EOF after the last. An error names the member
// where its name is known.
func (t *MemberReader) Next() (*TarMember, error) {
	h, err := t.tr.Next()
	if err != nil {
		switch {
		case err == io.EOF:
		case errors.Is(err, tar.ErrFieldTooLong):
			err = hinterr.Damaged("a PAX or long-name record is too long, after %d members", t.n)
		case errors.Is(err, tar.ErrHeader) && t.n == 0:
			err = hinterr.Damaged("not a tar archive")
		case errors.Is(err, tar.ErrHeader):
			err = hinterr.Damaged("damaged tar header after %d members", t.n)
		case errors.Is(err, io.ErrUnexpectedEOF):
			err = hinterr.Damaged("tar archive ends early, after %d members", t.n)
		}
		return nil, err
	}
	if t.n++; t.n > maxMembers {
		return nil, fmt.Errorf("more than %d members", maxMembers)
	}
	e := &TarMember{Header: h, Number: t.n}
	if e.Path, err = CleanName(h.Name); err != nil {
		return nil, err
	}
	e.Sparse = h.Typeflag == tar.TypeGNUSparse
	for k := range h.PAXRecords {
		e.Sparse = e.Sparse || strings.HasPrefix(k, paxSparse)
	}
	return e, nil
}

// CleanName makes a member's name relative to the root. A leading slash is dropped, as
// engines do; a name that leaves the root is an error, as it is for docker.
func CleanName(name string) (string, error) {
	if len(name) > MaxName {
		return "", hinterr.Damaged("%.40q…: name of %d bytes, at most %d", name, len(name), MaxName)
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", hinterr.Damaged("%q: name with a NUL byte", name)
	}
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", hinterr.Damaged("%s: name leaves the root file system", name)
	}
	if clean == "." {
		return "", nil
	}
	return clean, nil
}

// IsRegular reports whether the member has the content of a file.
func (e *TarMember) IsRegular() bool {
	switch e.Typeflag {
	case tar.TypeReg, '\x00', tar.TypeGNUSparse, tar.TypeCont:
		return true
	}
	return false
}
