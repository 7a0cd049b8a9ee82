package elf

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// little returns the values in little-endian order.
func little(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// ehFrame is a small .eh_frame at vaddr with entries for the starts; enc is the encoding of addresses in the CIE,
// and aug its augmentation string.
func ehFrame(aug string, enc byte, vaddr uint64, starts ...uint64) []byte {
	var b []byte
	entry := func(body []byte) {
		b = slices.Concat(b, little(uint32(len(body))), body)
	}
	cie := little(uint32(0), uint8(1), []byte(aug), []byte{0, 1, 0x78, 16})
	switch aug {
	case "zR", "zRS":
		cie = append(cie, 1, enc)
	case "zPR":
		cie = append(append(cie, 10, pePtr), append(make([]byte, 8), enc)...)
	case "zPLR":
		cie = append(cie, 7, pePcrel|peSdata4, 0, 0, 0, 0, 0x1b, enc)
	}
	entry(append(cie, make([]byte, -len(cie)&3)...))
	for _, s := range starts {
		at := vaddr + uint64(len(b)) + 8
		fde := little(uint32(len(b) + 4))
		switch enc {
		case pePtr:
			fde = append(fde, little(s, uint64(16))...)
		case peUdata4:
			fde = append(fde, little(uint32(s), uint32(16), uint64(0))...)
		case pePcrel | peSdata8:
			fde = append(fde, little(s-at, uint64(16), uint32(0))...)
		case pePcrel | peSdata4:
			fde = append(fde, little(uint32(s-at), uint32(16), uint64(0))...)
		}
		entry(fde)
	}
	return append(b, 0, 0, 0, 0)
}

func TestEhFrameSection(t *testing.T) {
	want := []uint64{0x401000, 0x401230, 0x500000}
	for _, c := range []struct {
		name, aug string
		enc       byte
		change    func(b []byte, s *Section)
		want      []uint64
	}{
		{"relative", "zR", pePcrel | peSdata4, nil, want},
		{"absolute", "zR", pePtr, nil, want},
		{"absolute without saying so", "", pePtr, nil, want},
		{"with a personality", "zPLR", pePcrel | peSdata4, nil, want},
		{"with the address of one", "zPR", peUdata4, nil, want},
		{"of a signal's handler", "zRS", pePcrel | peSdata8, nil, want},
		{"an unknown augmentation", "eh", pePtr, nil, nil},
		{"an unknown encoding", "zR", 0x2b, nil, nil},
		{"no such CIE", "zR", pePcrel | peSdata4, func(b []byte, _ *Section) { b[24] = 0xff; b[25] = 0xff }, want[1:]},
		{"64-bit lengths", "zR", pePcrel | peSdata4, func(b []byte, _ *Section) { copy(b, "\xff\xff\xff\xff") }, nil},
		{"a length beyond the section", "zR", pePcrel | peSdata4, func(b []byte, _ *Section) { copy(b[20:], "\xf0\xff\xff\xff") }, want[:1]},
		{"without content", "zR", pePtr, func(_ []byte, s *Section) { s.Type = SHTNobits }, nil},
		{"behind a terminator", "zR", pePtr, func(_ []byte, s *Section) { s.Off, s.Size = 0, s.Size+4 }, want},
		{"a section that ends in an entry", "zR", pePtr, func(b []byte, s *Section) { s.Size = uint64(len(b) - 20) }, want},
		{"a section that ends before", "zR", pePtr, func(b []byte, s *Section) { s.Size = uint64(len(b) - 21) }, want[:2]},
		{"a CIE before the section", "zR", pePtr, func(b []byte, _ *Section) { b[24] += 4 }, want[1:]},
		{"the address of one in 4 bytes", "zPR", peUdata4, func(b []byte, _ *Section) { b[17], b[22] = peUdata4, peUdata4 }, want},
		{"the address of one, with a sign", "zPR", peUdata4, func(b []byte, _ *Section) { b[17] = peSdata8 }, want},
		{"tables of landing pads at addresses", "zPLR", pePcrel | peSdata4, func(b []byte, _ *Section) { b[23] = peUdata4; copy(b[44:], "\x04\x78\x56\x34\x12") }, want},
	} {
		t.Run(c.name, func(t *testing.T) {
			const addr = 0x600000
			const before = 4 // bytes: a terminator
			content := ehFrame(c.aug, c.enc, addr, want...)
			s := Section{Name: ".eh_frame", Type: SHTProgbits, Addr: addr, Off: before, Size: uint64(len(content))}
			if c.change != nil {
				c.change(content, &s)
			}
			b := slices.Concat(make([]byte, before), content)
			var got []uint64
			f := &File{R: bytes.NewReader(b), Size: uint64(len(b)), Sections: []Section{s}}
			f.EachFDE(func(uint64) bool { return true }, func(start, _ uint64) { got = append(got, start) })
			if !slices.Equal(got, c.want) {
				t.Errorf("got %#x, want %#x", got, c.want)
			}
		})
	}
}

// TestSearchTable: the starts and the offsets of the entries; an entry that leads out of the segment does not count.
func TestSearchTable(t *testing.T) {
	const vaddr, start = 0x10000, 0x20000
	for _, c := range []struct {
		name string
		fde  uint64
		want int
	}{{"an entry", uint64(len(plain)), 1}, {"one behind the segment", 1 << 20, 0}} {
		fde := fdeOf(plain, "\x00", "\x00\x00\x00")
		hdr := uint64(len(plain) + len(fde))
		b := plain + fde + string(little([]byte{1, 0x1b, peUdata4, peDatarel | peSdata4}, uint32(0), uint32(1), uint32(start-vaddr-hdr), uint32(c.fde-hdr)))
		f := inMemory(PFR, vaddr, []byte(b))
		f.Progs = append(f.Progs, Prog{Type: PTGNUEhFrame, Vaddr: vaddr + hdr, Filesz: SearchHead + SearchSize})
		f.Sections = []Section{}
		got := 0
		f.EachFDE(func(uint64) bool { return true }, func(s, off uint64) {
			if got++; s != start || off != c.fde {
				t.Errorf("%s: %#x at offset %#x", c.name, s, off)
			}
		})
		if got != c.want {
			t.Errorf("%s: %d entries, want %d", c.name, got, c.want)
		}
	}
}

// TestLandingPads: a function handles exceptions if its FDE has the address of a table.
func TestLandingPads(t *testing.T) {
	const vaddr, cie = 0x600000, "\x00\x00\x00\x00\x01zLR\x00\x01\x78\x10\x02\x1b\x1b\x0c\x07\x08\x90\x01\x00"
	for _, c := range []struct {
		name, cie, data string
		want            bool
	}{
		{"no table", cie, "\x04\x00\x00\x00\x00", false},
		{"a table", cie, "\x04\x00\x00\x01\x00", true},
		{"C code", string(plain[4:]), "\x00\x00\x00\x00\x00", false},
		{"a CIE that is not understood", "\x00\x00\x00\x00\x01xx\x00\x01\x78\x10\x02\x1b\x1b\x0c\x07\x08\x90\x01\x00\x00", "\x00\x00\x00\x00\x00", true},
	} {
		head := string(little(uint32(len(c.cie)))) + c.cie
		b := head + fdeOf(head, c.data, "\x00\x00\x00") + "\x00\x00\x00\x00"
		f := inMemory(PFR, vaddr, []byte(b))
		if got := f.HasLandingPads(uint64(len(head))); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
		if !f.HasLandingPads(uint64(len(b))) {
			t.Errorf("%s: an FDE outside of the file", c.name)
		}
	}
}

// TestEhFrameSearch: without section headers, entries are found by the first CIE for C code, each once.
func TestEhFrameSearch(t *testing.T) {
	const vaddr = 0x600000
	fde := fdeOf(plain, "\x00", "\x00\x00\x00")
	for _, c := range []struct {
		name, content string
		flags         uint32
		want          int
	}{
		{"at the start", plain + fde, PFR, 1},
		{"behind code", "\xc3" + plain + fde, PFR | PFX, 1},
		{"in what is written", plain + fde, PFR | PFW, 0},
		{"two", plain + fde + plain + fde, PFR, 2},
		{"without its length", plain[1:] + fde, PFR, 0},
	} {
		f := inMemory(c.flags, vaddr, []byte(c.content+"\x00\x00\x00\x00"))
		got := 0
		f.EachFDE(func(uint64) bool { return true }, func(_, _ uint64) { got++ })
		if got != c.want {
			t.Errorf("%s: %d entries, want %d", c.name, got, c.want)
		}
	}
}

// TestGNUHash counts symbols through DT_GNU_HASH, the only hash table of many libraries.
func TestGNUHash(t *testing.T) {
	table := func(nbuckets, symoffset, bloom uint32, rest ...uint32) []byte {
		return little(nbuckets, symoffset, bloom, uint32(6), make([]byte, 8*bloom), rest)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want uint64
	}{
		{"two chains", table(2, 1, 1, 1, 3, 2, 3, 4, 5), 5}, // symbols 1, 2 end at 2; 3, 4 end at 4
		{"one symbol", table(1, 1, 1, 1, 3), 2},
		{"no symbols", table(1, 7, 1, 0), 7},
		{"a chain without an end", table(1, 1, 1, 1, 2, 2, 2), 4},
		{"no room for the buckets", table(1<<30, 1, 1, 1), 0},
		{"too short", []byte{1, 2, 3}, 0},
		{"a bloom filter without an end", table(1, 1, 0, 1)[:16], 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &File{R: bytes.NewReader(c.b), Size: uint64(len(c.b)), Progs: []Prog{{Type: PTLoad, Vaddr: 0x1000, Filesz: uint64(len(c.b)), Memsz: uint64(len(c.b))}}}
			if got := f.gnuHashSymbols(0x1000); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
