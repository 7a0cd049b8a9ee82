package rewriter

import "encoding/binary"

// Function starts from .eh_frame. Sources: the Linux Standard Base, "Exception Frames" and
// ".eh_frame_hdr", and DWARF 4, 7.24, for the DW_EH_PE encodings.

const (
	ptGNUEhFrame = 0x6474e550

	pePtr     = 0x00 // 8 bytes
	peUdata4  = 0x03
	peSdata4  = 0x0b
	peSdata8  = 0x0c
	pePcrel   = 0x10
	peDatarel = 0x30
	peOmit    = 0xff

	// maxFDEs bounds the entries looked at in one file.
	maxFDEs = 1 << 20
	// cieRead is how much of a CIE is read for its augmentation, in bytes.
	cieRead = 64
)

// eachFDE calls visit with the first address of each function that .eh_frame describes:
// through the search table of PT_GNU_EH_FRAME, or by reading the section where there is no
// table. Damage ends the search without an error.
func eachFDE(f *elfFile, visit func(start uint64)) error {
	if p := f.prog(ptGNUEhFrame); p != nil {
		if done, err := ehFrameTable(f, p.vaddr, visit); done || err != nil {
			return err
		}
	}
	if s := f.section(".eh_frame"); s != nil && s.typ != shtNobits {
		return ehFrameSection(f, s, visit)
	}
	return nil
}

// ehFrameTable reads the search table of .eh_frame_hdr; done is false where there is none
// of the one form that linkers write: pairs of 4 bytes relative to the header.
func ehFrameTable(f *elfFile, hdr uint64, visit func(uint64)) (done bool, err error) {
	b, err := f.mem(hdr, 12)
	if err != nil || len(b) < 12 {
		return false, err
	}
	const version = 1
	if b[0] != version || b[1]&0x0f != peSdata4 || b[2] != peUdata4 || b[3] != peDatarel|peSdata4 {
		return false, nil
	}
	count := min(uint64(binary.LittleEndian.Uint32(b[8:])), maxFDEs)
	const entry = 8
	for i := uint64(0); i < count; i += symChunk {
		b, err := f.mem(hdr+12+i*entry, entry*min(symChunk, count-i))
		if err != nil {
			return true, err
		}
		if len(b) < entry {
			break
		}
		for ; len(b) >= entry; b = b[entry:] {
			visit(hdr + uint64(int64(int32(binary.LittleEndian.Uint32(b)))))
		}
	}
	return true, nil
}

// ehFrameSection reads the entries of .eh_frame one after the other.
func ehFrameSection(f *elfFile, s *section, visit func(uint64)) error {
	w := &window{f: f}
	encodings := make(map[uint64]byte) // of the CIE at an offset
	for off, n := s.off, 0; n < maxFDEs && off+8 <= s.off+s.size; n++ {
		b, err := w.at(off, 24)
		if err != nil || len(b) < 24 {
			return err
		}
		length := uint64(binary.LittleEndian.Uint32(b))
		if length == 0xffffffff {
			return nil // the 64-bit form; nobody writes it
		}
		if length == 0 {
			off += 4 // a terminator; the linker may put more behind it
			continue
		}
		next := off + 4 + length
		if id := uint64(binary.LittleEndian.Uint32(b[4:])); id != 0 && id <= off+4-s.off {
			cie := off + 4 - id
			enc, ok := encodings[cie]
			if !ok && len(encodings) < symChunk {
				if enc, err = cieEncoding(f, cie); err != nil {
					return err
				}
				encodings[cie] = enc
			}
			if start, ok := pointer(b[8:], s.addr+(off+8-s.off), enc); ok {
				visit(start)
			}
		}
		off = next
	}
	return nil
}

// cieEncoding returns how the FDEs of the CIE at offset off write their addresses.
func cieEncoding(f *elfFile, off uint64) (byte, error) {
	if !f.inFile(off, 9) {
		return peOmit, nil
	}
	b, err := f.bytes(off, min(cieRead, f.size-off))
	if err != nil {
		return peOmit, err
	}
	aug := cString(b, 9)
	if aug == "" {
		return pePtr, nil
	}
	if aug[0] != 'z' {
		return peOmit, nil
	}
	// After the string: code and data alignment, the return register, the length.
	i := 9 + len(aug) + 1
	for range 4 {
		for i < len(b) && b[i]&0x80 != 0 {
			i++
		}
		i++
	}
	for _, c := range aug[1:] {
		if i >= len(b) {
			return peOmit, nil
		}
		switch c {
		case 'R':
			return b[i], nil
		case 'L':
			i++
		case 'P':
			size := 4
			if enc := b[i] & 0x0f; enc == pePtr || enc == peSdata8 {
				size = 8
			}
			i += 1 + size
		case 'S', 'B':
		default:
			return peOmit, nil
		}
	}
	return pePtr, nil
}

// pointer decodes an address that stands at vaddr.
func pointer(b []byte, vaddr uint64, enc byte) (uint64, bool) {
	if enc == peOmit || len(b) < 8 {
		return 0, false
	}
	var v uint64
	switch enc & 0x0f {
	case pePtr, peSdata8:
		v = binary.LittleEndian.Uint64(b)
	case peSdata4:
		v = uint64(int64(int32(binary.LittleEndian.Uint32(b))))
	case peUdata4:
		v = uint64(binary.LittleEndian.Uint32(b))
	default:
		return 0, false
	}
	switch enc & 0x70 {
	case 0:
		return v, true
	case pePcrel:
		return v + vaddr, true
	}
	return 0, false
}

// window reads a file front to back in blocks.
type window struct {
	f   *elfFile
	off uint64
	b   []byte
}

// at returns n bytes at offset off, fewer at the end of the file.
func (w *window) at(off, n uint64) ([]byte, error) {
	if off < w.off || off-w.off+n > uint64(len(w.b)) {
		if off >= w.f.size {
			return nil, nil
		}
		b, err := w.f.bytes(off, min(max(n, codeBlock), w.f.size-off))
		if err != nil {
			return nil, err
		}
		w.off, w.b = off, b
	}
	b := w.b[off-w.off:]
	return b[:min(n, uint64(len(b)))], nil
}

// eachIrelative calls visit with the resolver of each R_X86_64_IRELATIVE relocation: those
// of the dynamic segment, and in a static program those of its SHT_RELA sections.
func eachIrelative(f *elfFile, visit func(resolver uint64)) error {
	return eachRela(f, func(typ uint32, addend uint64) {
		if typ == rIrelative {
			visit(addend)
		}
	})
}

const (
	rIrelative = 37
	shtRela    = 4
	dtPltrelsz = 2
	dtJmprel   = 23
)

// eachRela calls visit for each relocation with an addend that is applied at load time.
func eachRela(f *elfFile, visit func(typ uint32, addend uint64)) error {
	for _, tags := range [...][2]int64{{dtRela, dtRelasz}, {dtJmprel, dtPltrelsz}} {
		at, size := f.dyn(tags[0]), f.dyn(tags[1])
		if at == nil || size == nil {
			continue
		}
		p := f.load(at.val)
		if p == nil {
			continue
		}
		n := min(size.val, p.filesz-(at.val-p.vaddr))
		if err := relaRange(f, p.off+(at.val-p.vaddr), n, visit); err != nil {
			return err
		}
	}
	if f.dynamic != nil {
		return nil
	}
	for i := range f.sections {
		if s := &f.sections[i]; s.typ == shtRela && s.addr != 0 {
			if err := relaRange(f, s.off, s.size, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func relaRange(f *elfFile, off, size uint64, visit func(typ uint32, addend uint64)) error {
	const chunk = symChunk * relaSize
	for ; size >= relaSize; off, size = off+chunk, size-min(chunk, size) {
		b, err := f.bytes(off, min(chunk, size))
		if err != nil {
			return err
		}
		for ; len(b) >= relaSize; b = b[relaSize:] {
			visit(binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint64(b[16:]))
		}
	}
	return nil
}
