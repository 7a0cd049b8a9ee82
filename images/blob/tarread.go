// Reading untrusted tar streams. archive/tar bounds what it allocates
// (PAX records and GNU long names: 1 MiB); this file bounds and cleans the names.

package blob

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"

	"vfix.dev/vfix/internal/hinterr"
)

const (
	// TarBlock is the block size of tar, in bytes (POSIX pax, "ustar Interchange Format").
	TarBlock = 512
	// MaxName is the longest name accepted, in bytes: PATH_MAX of linux/limits.h. No
	// engine could unpack a longer one.
	MaxName = 4096
	// maxMembers is how many members one layer or tarball may have. It bounds the memory
	// that vfix needs for an archive of headers alone; real layers stay below
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
	// Sparse says that Size includes the holes, which the archive does not hold.
	Sparse bool
	Number uint32 // in the archive, the first being 1
	// Offset is where the content begins in the archive, in bytes.
	Offset int64
	// Content is what a regular file holds.
	Content io.Reader
}

// Members yields the members of a tar stream, each with its content, which can be read until the next one. Of a file
// only the headers are read. An error, which comes last, names the member if its name is known.
func Members(r io.Reader) iter.Seq2[*TarMember, error] {
	if _, is := r.(io.Seeker); !is {
		r = bufio.NewReaderSize(r, CopyBuffer) // r itself if it is one
	}
	return func(yield func(*TarMember, error) bool) {
		in, end := &tarStream{r: r}, int64(0)
		tr := tar.NewReader(in)
		for n := uint32(1); ; n++ {
			m, err := nextMember(tr, n)
			switch {
			case err == nil:
				m.Offset = in.n
				end = m.end()
			case err == io.EOF && in.n > end && in.zeros < TarBlock:
				err = hinterr.Damaged("tar archive ends early, in member %d", n)
			}
			if err == io.EOF || !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// tarStream is a tar stream that knows whether it ends as an archive does, after a member or with zeros. A tar.Reader
// takes a stream that ends behind the PAX records of a member for one that is whole (Go 1.26).
type tarStream struct {
	r     io.Reader
	n     int64 // bytes read
	zeros int   // the last of them that are 0
}

func (s *tarStream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	text := len(bytes.TrimRight(p[:n], "\x00"))
	if text > 0 {
		s.zeros = 0
	}
	s.zeros += n - text
	return n, err
}

// Seek lets a tar.Reader skip the content of members, if the stream is a file.
func (s *tarStream) Seek(offset int64, whence int) (int64, error) {
	f, is := s.r.(io.Seeker)
	if !is {
		return 0, errors.ErrUnsupported
	}
	at, err := f.Seek(offset, whence)
	s.n = at
	return at, err
}

// end is where the member ends in the archive, or a place behind that if it is sparse.
func (e *TarMember) end() int64 {
	end := e.Offset
	if e.IsRegular() {
		end += e.Size
	}
	return (end + TarBlock - 1) / TarBlock * TarBlock
}

// nextMember reads the header of member number n.
func nextMember(tr *tar.Reader, n uint32) (*TarMember, error) {
	h, err := tr.Next()
	switch {
	case err == nil:
	case errors.Is(err, tar.ErrFieldTooLong):
		return nil, hinterr.Damaged("a PAX or long-name record of member %d is too long", n)
	case errors.Is(err, tar.ErrHeader) && n == 1:
		return nil, hinterr.Damaged("not a tar archive")
	case errors.Is(err, tar.ErrHeader):
		return nil, hinterr.Damaged("damaged tar header of member %d", n)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, hinterr.Damaged("tar archive ends early, in member %d", n)
	default:
		return nil, err
	}
	if n > maxMembers {
		return nil, fmt.Errorf("more than %d members", maxMembers)
	}
	m := &TarMember{Header: h, Number: n, Content: tr, Sparse: IsSparse(h)}
	if m.Path, err = CleanName(h.Name); err != nil {
		return nil, err
	}
	return m, nil
}

// IsSparse reports whether a member has holes, which are not in the archive.
func IsSparse(h *tar.Header) bool {
	for k := range h.PAXRecords {
		if strings.HasPrefix(k, paxSparse) {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
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
