// The index of a directory: the results of a scan, and the format of its file.

package ociruntime

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"slices"
	"sort"

	examiner "vfix.dev/vfix/host/oldexaminer"
	"vfix.dev/vfix/host/rootfs"
)

// An index has the results for one directory: the files that call the page, the files that could not be examined,
// and the identities of all others. Its file has:
//
//	8 bytes   magic
//	4 bytes   CRC-32 (IEEE) of all that follows, little-endian like all numbers here
//	4 bytes   length of the JSON
//	4 bytes   length of the identities
//	          JSON: scanned
//	          identities of 40 bytes each, in the order of their inode numbers
//	          directories: identity, length of the names (4 bytes), names in the form of rootfs.Visitor
//
// Any other file counts as no index.
type index struct {
	scanned
	clean known
	// dirs are the names in directories, which need not be read again as long as the directories do not change.
	dirs []byte
}

const indexMagic = "vfixidx7"

// scanned is the result of the scan of a directory.
type scanned struct {
	Legacy []legacyFile `json:"hits"`
	Unread []unread     `json:"unread"`
	// Moved reports that overlay shows a part of the layer at another place, or with other content: the paths in
	// the layer then differ from those in the container.
	Moved bool `json:"moved,omitempty"`
	// Part reports that the scan was interrupted, so the directory has more files.
	Part bool `json:"part,omitempty"`
	// Witnesses are some regular files of a layer: a mounted overlay that shows one of them has this layer.
	Witnesses []witness `json:"witnesses,omitempty"`
	// temps are incomplete files of an earlier start; never stored.
	temps []string
	// certain reports that its directory, or each layer of its overlay, is on a file system with that property (rootfs.Certain);
	// never stored.
	certain bool
}

// legacyFile is a file with call sites that need patches, or cannot have them.
type legacyFile struct {
	Names  [][]byte        `json:"names"` // real paths; bytes, as they may not be UTF-8
	ID     rootfs.Identity `json:"id"`
	SHA256 []byte          `json:"sha256"` // of the original
	examiner.Finding
	layer string // the lower layer that has it, "" for the root; not in the file
	mount int    // the ID of its mount below the root, 0 for the root; not in the file
	// loose reports that it may change without a trace: never stored.
	loose bool
}

type witness struct {
	Name []byte          `json:"name"`
	ID   rootfs.Identity `json:"id"`
}

// unread is an ELF file that could not be examined.
type unread struct {
	Name   []byte          `json:"name"`
	ID     rootfs.Identity `json:"id"`
	Reason string          `json:"reason"`
	// passing reports that another attempt may succeed: never stored.
	passing bool
	crosses bool // it is a directory in another mount; never stored
	mount   int  // as in legacyFile
}

// identitySize is the size of an identity in an index, in bytes.
const identitySize = 40

func appendIdentity(b []byte, id rootfs.Identity) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, id.Ino)
	b = le.AppendUint64(b, id.Dev)
	b = le.AppendUint64(b, uint64(id.Size))
	b = le.AppendUint64(b, uint64(id.Mtime))
	return le.AppendUint64(b, uint64(id.Ctime))
}

// bytes returns the index as a file.
func (x *index) bytes() ([]byte, error) {
	text, err := json.Marshal(x.scanned)
	if err != nil {
		return nil, err
	}
	b := make([]byte, indexHeader, indexHeader+len(text)+len(x.clean)+len(x.dirs))
	copy(b, indexMagic)
	b = append(append(append(b, text...), x.clean...), x.dirs...)
	le := binary.LittleEndian
	le.PutUint32(b[12:], uint32(len(text)))
	le.PutUint32(b[16:], uint32(len(x.clean)))
	le.PutUint32(b[8:], crc32.ChecksumIEEE(b[12:]))
	return b, nil
}

var errIndex = errors.New("damaged index")

// parseIndex reads the bytes of an index.
func parseIndex(b []byte) (*index, error) {
	if len(b) < indexHeader || string(b[:8]) != indexMagic {
		return nil, errIndex
	}
	le := binary.LittleEndian
	if le.Uint32(b[8:]) != crc32.ChecksumIEEE(b[12:]) {
		return nil, errIndex
	}
	text, clean, rest := uint64(le.Uint32(b[12:])), uint64(le.Uint32(b[16:])), b[indexHeader:]
	if text+clean > uint64(len(rest)) || clean%identitySize != 0 {
		return nil, errIndex
	}
	x := &index{clean: rest[text : text+clean], dirs: rest[text+clean:]}
	if err := json.Unmarshal(rest[:text], &x.scanned); err != nil {
		return nil, errIndex
	}
	return x, nil
}

const (
	indexHeader = 20 // bytes
	dirHeader   = identitySize + 4
)

func appendDir(b []byte, id rootfs.Identity, names []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(appendIdentity(b, id), uint32(len(names))), names...)
}

// dirsOf maps the inodes of directories to their parts, each of which begins with its identity.
func dirsOf(b []byte) map[[2]uint64][]byte {
	const usual = 44 + 200 // bytes
	all := make(map[[2]uint64][]byte, len(b)/usual)
	le := binary.LittleEndian
	for len(b) >= dirHeader {
		n := dirHeader + uint64(le.Uint32(b[identitySize:]))
		if n > uint64(len(b)) {
			break
		}
		all[[2]uint64{le.Uint64(b), le.Uint64(b[8:])}] = b[:n]
		b = b[n:]
	}
	return all
}

// known has the identities of an index, ordered by their inode numbers.
type known []byte

func (k known) len() int { return len(k) / identitySize }

func (k known) ino(i int) uint64 { return binary.LittleEndian.Uint64(k[i*identitySize:]) }

// find returns the position of an identity, -1 for none. It does not find identities that are out of order, as in
// a forged file.
func (k known) find(id rootfs.Identity) int {
	var buf [identitySize]byte
	key := appendIdentity(buf[:0], id)
	for i := sort.Search(k.len(), func(i int) bool { return k.ino(i) >= id.Ino }); i < k.len() && k.ino(i) == id.Ino; i++ {
		if string(k[i*identitySize:(i+1)*identitySize]) == string(key) {
			return i
		}
	}
	return -1
}

// inOrder returns identities in the form of an index.
func inOrder(all []byte) []byte {
	type identity [identitySize]byte
	list := make([]identity, len(all)/identitySize)
	for i := range list {
		copy(list[i][:], all[i*identitySize:])
	}
	slices.SortFunc(list, func(a, b identity) int {
		le := binary.LittleEndian
		return cmp.Or(cmp.Compare(le.Uint64(a[:]), le.Uint64(b[:])), bytes.Compare(a[:], b[:]))
	})
	list = slices.Compact(list) // of files with several names
	out := make([]byte, 0, len(list)*identitySize)
	for i := range list {
		out = append(out, list[i][:]...)
	}
	return out
}
