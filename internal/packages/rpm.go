// rpm keeps a header for each package in a database of one of three kinds: a Berkeley DB hash
// (to rpm 4.15: CentOS 5 to 8), SQLite (from 4.16), or "ndb" (SUSE), which is not read here.
// Only the headers are read, one after the other: a reader of that is smaller than any database
// engine. Source of the header's format: rpm's docs/manual/format_header.md.

package packages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"vfix.dev/vfix/internal/binread"
	"vfix.dev/vfix/internal/hinterr"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

const (
	// maxHeader is the longest package header read, in bytes; a kernel's has some 2 MiB.
	maxHeader = 32 << 20

	rpmtagName       = 1000
	rpmtagVersion    = 1001
	rpmtagRelease    = 1002
	rpmtagEpoch      = 1003
	rpmtagArch       = 1022
	rpmtagOldNames   = 1027 // whole paths, before rpm 4
	rpmtagDirIndexes = 1116
	rpmtagBasenames  = 1117
	rpmtagDirnames   = 1118

	rpmInt32       = 4
	rpmString      = 6
	rpmStringArray = 8
)

// headerVisitor gets each package header; it returns false when it has seen enough.
type headerVisitor func(header []byte) bool

// rpmKinds are the kinds of database, by the names of their files, and what reads each.
var rpmKinds = []struct {
	name string
	read func(r io.ReaderAt, size int64, visit headerVisitor) error
}{
	{"rpmdb.sqlite", readSQLite}, {"Packages", readBDB}, {"Packages.db", notNDB},
}

// notNDB: SUSE's own kind is not read; no libc of the vsyscall page's time was packaged so.
func notNDB(io.ReaderAt, int64, headerVisitor) error {
	return errors.New("an ndb database, which vfix cannot read")
}

// rpmDirs are where rpm keeps its database (macros _dbpath), newest first.
var rpmDirs = []string{"usr/lib/sysimage/rpm", "var/lib/rpm"}

// RPMDatabases are the files that may be a database of rpm's, relative to the root of a file system.
func RPMDatabases() []string {
	var all []string
	for _, dir := range rpmDirs {
		for _, db := range rpmKinds {
			all = append(all, dir+"/"+db.name)
		}
	}
	return all
}

// RPMOwners returns the rpm package of each file, as NAME-[EPOCH:]VERSION-RELEASE.ARCH; files that no
// database knows are left out. root need not have more than the files of RPMDatabases that there are.
func RPMOwners(root fs.FS, files []string) (map[string]string, error) {
	owners := map[string]string{}
	for _, dir := range rpmDirs {
		for _, db := range rpmKinds {
			name := dir + "/" + db.name
			r, size, done, err := OpenFile(root, name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return owners, err
			}
			err = db.read(r, size, func(header []byte) bool {
				h := rpmHeader(header)
				for _, file := range files {
					if owners[file] == "" && h.owns(file) {
						owners[file] = h.label()
					}
				}
				return len(owners) < len(files)
			})
			done()
			if err != nil {
				return owners, fmt.Errorf("%s: %w", name, err)
			}
			if len(owners) == len(files) {
				return owners, nil
			}
		}
	}
	return owners, nil
}

// damaged is a database that contradicts itself, or ends too early.
func damaged(format string, a ...any) error {
	return hinterr.With(hinterr.Damaged(format, a...), "run rpm --rebuilddb in the system that it belongs to")
}

// rpmHeader is a package header in the database: the number of entries, the size of
// the store, the entries (tag, type, offset, count), the store; big-endian.
type rpmHeader []byte

// entry returns what the store holds from the start of a tag on, and how many values.
func (h rpmHeader) entry(tag, typ uint32) (store []byte, count uint32) {
	const head, size = 8, 16
	if len(h) < head {
		return nil, 0
	}
	n := uint64(be.Uint32(h))
	if n > uint64(len(h)-head)/size {
		return nil, 0
	}
	data := h[head+size*n:]
	for e := h[head : head+size*n]; len(e) > 0; e = e[size:] {
		if be.Uint32(e) != tag || be.Uint32(e[4:]) != typ {
			continue
		}
		off := be.Uint32(e[8:])
		if uint64(off) > uint64(len(data)) {
			return nil, 0
		}
		return data[off:], be.Uint32(e[12:])
	}
	return nil, 0
}

func (h rpmHeader) text(tag uint32) string {
	b, _ := h.entry(tag, rpmString)
	return binread.CString(b)
}

func (h rpmHeader) number(tag uint32) uint32 {
	b, count := h.entry(tag, rpmInt32)
	if count == 0 || len(b) < 4 {
		return 0
	}
	return be.Uint32(b)
}

// each calls visit with the texts of an array until it returns false.
func (h rpmHeader) each(tag uint32, visit func(i uint32, s string) bool) {
	b, count := h.entry(tag, rpmStringArray)
	for i := uint32(0); i < count && len(b) > 0; i++ {
		s := binread.CString(b)
		if !visit(i, s) {
			return
		}
		b = b[min(len(s)+1, len(b)):]
	}
}

// owns reports whether a file is of the package. Each array is gone through once, whatever it
// holds.
func (h rpmHeader) owns(file string) bool {
	found := false
	for _, want := range spellings(file) {
		dir, base := path.Split(want)
		dirs := map[uint32]bool{}
		h.each(rpmtagDirnames, func(i uint32, s string) bool {
			if s == dir {
				dirs[i] = true
			}
			return true
		})
		indexes, count := h.entry(rpmtagDirIndexes, rpmInt32)
		h.each(rpmtagBasenames, func(i uint32, s string) bool {
			if i >= count || uint64(i)*4+4 > uint64(len(indexes)) {
				return false
			}
			found = found || s == base && dirs[be.Uint32(indexes[4*i:])]
			return !found
		})
		h.each(rpmtagOldNames, func(_ uint32, s string) bool {
			found = found || s == want
			return !found
		})
	}
	return found
}

func (h rpmHeader) label() string {
	version := h.text(rpmtagVersion)
	if epoch := h.number(rpmtagEpoch); epoch != 0 {
		version = fmt.Sprintf("%d:%s", epoch, version)
	}
	return fmt.Sprintf("%s-%s-%s.%s", h.text(rpmtagName), version, h.text(rpmtagRelease), h.text(rpmtagArch))
}

// budget bounds the bytes of headers that a database may make a reader read: an honest one
// has no more than its own size.
type budget int64

func (b *budget) take(n int) error {
	if *b -= budget(n); *b < 0 {
		return damaged("its parts overlap")
	}
	return nil
}
