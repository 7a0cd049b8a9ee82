// Relocations of programs and libraries: DT_RELA, DT_JMPREL and the tables of static programs.

package elf

import (
	"encoding/binary"
)

// Rela is one relocation with an addend.
type Rela struct {
	Off    uint64 // of the entry in the file
	At     uint64 // vaddr of the relocated word
	Type   uint32
	Addend uint64
}

// AddendOff is the offset of the addend in an entry, in bytes.
const AddendOff = 16

// EachRela calls visit for each relocation with an addend that is applied at load time: those of the dynamic
// segment or, in a static program, of its SHT_RELA sections.
func (f *File) EachRela(visit func(Rela)) {
	le := binary.LittleEndian
	each := func(off uint64, e []byte) {
		visit(Rela{off, le.Uint64(e), le.Uint32(e[8:]), le.Uint64(e[AddendOff:])})
	}
	for _, tags := range [...][2]int64{{DTRela, DTRelasz}, {DTJmprel, DTPltrelsz}} {
		at, size := f.Range(tags[0], tags[1])
		p := f.Load(at)
		if p == nil {
			continue
		}
		d := at - p.Vaddr
		f.records(p.Off+d, min(size, p.Filesz-d)/RelaSize, RelaSize, each)
	}
	for i := range f.Sections {
		if s := &f.Sections[i]; f.Dynamic == nil && s.Type == SHTRela && s.Addr != 0 {
			f.records(s.Off, s.Size/RelaSize, RelaSize, each)
		}
	}
}
