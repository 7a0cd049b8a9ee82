// Notes: the build ID.

package elf

import (
	"encoding/binary"
	"encoding/hex"
)

// HasBuildID reports whether a PT_NOTE has a build ID.
func (f *File) HasBuildID(p *Prog) bool {
	return p.Type == PTNote && f.InFile(p.Off, p.Filesz) && BuildID(f.Bytes(p.Off, min(p.Filesz, maxNotes))) != ""
}

// maxNotes is how much of a PT_NOTE is searched for a build ID, in bytes.
const maxNotes = 64 << 10

// BuildID returns the GNU build ID in the content of a PT_NOTE, in hex, "" for none. Source of the layout: gABI, "Note
// Section"; NT_GNU_BUILD_ID is 3 (elf.h).
func BuildID(notes []byte) string {
	const head, ntGNUBuildID, maxID = 12, 3, 64
	le := func(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }
	up := func(n uint64) uint64 { return (n + 3) &^ 3 }
	for len(notes) >= head {
		namesz, descsz, typ := le(notes), le(notes[4:]), le(notes[8:])
		rest := notes[head:]
		if up(namesz)+descsz > uint64(len(rest)) {
			return ""
		}
		name, desc := rest[:namesz], rest[up(namesz):up(namesz)+descsz]
		if typ == ntGNUBuildID && string(name) == "GNU\x00" && descsz > 0 && descsz <= maxID {
			return hex.EncodeToString(desc)
		}
		notes = rest[min(up(namesz)+up(descsz), uint64(len(rest))):]
	}
	return ""
}
