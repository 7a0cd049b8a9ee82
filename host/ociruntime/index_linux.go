// The index of a folder: what a scan found in it, and the format of its file.

package ociruntime

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"

	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/host/rootfs"
)

// An index is what is known of one folder: the files that call the page, the ones that could
// not be examined, and the identities of all others. In the file:
//
//	8 bytes   magic
//	4 bytes   CRC-32 (IEEE) of all that follows, little-endian like all numbers here
//	4 bytes   length of the JSON
//	          JSON: what was found
//	          identities of 40 bytes each, in the order of the walk
//
// A file that is not so, is as good as none.
type index struct {
	scanned
	clean []byte // identities
}

const indexMagic = "vfixidx3"

// scanned is what the scan of a folder found that matters.
type scanned struct {
	Legacy []legacyFile `json:"hits"`
	Unread []unread     `json:"unread"`
	// temps are files that an earlier start left half-done; never remembered.
	temps []string
}

// legacyFile is a file with call sites that are to be patched, or cannot be.
type legacyFile struct {
	Names  [][]byte        `json:"names"` // real paths; bytes, for they need not be UTF-8
	ID     rootfs.Identity `json:"id"`
	SHA256 []byte          `json:"sha256"` // of the original
	examiner.Finding
	layer string // the lower layer that it was found in, "" for the root; not in the file
}

// unread is an ELF file that could not be examined.
type unread struct {
	Name   []byte          `json:"name"`
	ID     rootfs.Identity `json:"id"`
	Reason string          `json:"reason"`
	// passing says that another look may succeed: never remembered.
	passing bool
}

// identitySize is the bytes of an identity in an index.
const identitySize = 40

func appendIdentity(b []byte, id rootfs.Identity) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, id.Ino)
	b = le.AppendUint64(b, id.Dev)
	b = le.AppendUint64(b, uint64(id.Size))
	b = le.AppendUint64(b, uint64(id.Mtime))
	return le.AppendUint64(b, uint64(id.Ctime))
}

// bytes is the index as a file.
func (x *index) bytes() ([]byte, error) {
	text, err := json.Marshal(x.scanned)
	if err != nil {
		return nil, err
	}
	const header = 16
	b := make([]byte, header, header+len(text)+len(x.clean))
	copy(b, indexMagic)
	b = append(append(b, text...), x.clean...)
	le := binary.LittleEndian
	le.PutUint32(b[12:], uint32(len(text)))
	le.PutUint32(b[8:], crc32.ChecksumIEEE(b[12:]))
	return b, nil
}

var errIndex = errors.New("damaged index")

// parseIndex reads the bytes of an index.
func parseIndex(b []byte) (*index, error) {
	const header = 16
	if len(b) < header || string(b[:8]) != indexMagic {
		return nil, errIndex
	}
	le := binary.LittleEndian
	if le.Uint32(b[8:]) != crc32.ChecksumIEEE(b[12:]) {
		return nil, errIndex
	}
	n := uint64(le.Uint32(b[12:]))
	if n > uint64(len(b)-header) || (uint64(len(b)-header)-n)%identitySize != 0 {
		return nil, errIndex
	}
	x := &index{clean: b[header+n:]}
	if err := json.Unmarshal(b[header:header+n], &x.scanned); err != nil {
		return nil, errIndex
	}
	return x, nil
}

// lookup tells which identities an index holds. A folder that has not changed is walked in
// the order of its index: what is looked for is most often the next one. Only where it is
// not, a table is made.
type lookup struct {
	clean []byte
	next  int
	table map[string]int // where each is
}

func (l *lookup) has(id rootfs.Identity) bool {
	var buf [identitySize]byte
	key := appendIdentity(buf[:0], id)
	if l.next+identitySize <= len(l.clean) && string(l.clean[l.next:l.next+identitySize]) == string(key) {
		l.next += identitySize
		return true
	}
	if l.table == nil {
		l.table = make(map[string]int, len(l.clean)/identitySize)
		for i := 0; i+identitySize <= len(l.clean); i += identitySize {
			l.table[string(l.clean[i:i+identitySize])] = i
		}
	}
	at, ok := l.table[string(key)]
	if ok {
		l.next = at + identitySize
	}
	return ok
}
