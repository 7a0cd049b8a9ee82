package origin

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/tests/recorded"
)

// TestChanged: each byte of some files is changed, and each beginning of them is read. The files have a segment with the
// text, and perhaps a name, a loader, a note at their start, or a section.
func TestChanged(t *testing.T) {
	const base = 0x400000
	entry := func(value uint32, typ byte, name string, rest int) string {
		return string(binary.BigEndian.AppendUint32(nil, value)) + string([]byte{typ | 0x80}) + name + "\x00" + strings.Repeat("\x00", rest)
	}
	gosymtab := entry(0x401000, 'T', "main.main", 4) + entry(0x400fff, 't', "runtime.x", 4) + entry(3, 'D', "data", 4) +
		entry(1, 'Z', "", 0) + "\x00\x01\x02\x00\x00\x00" + "\x00\x00\x00\x00" + entry(0x401000, 'l', "b", 4) + entry(0x401234, 'L', "c", 4) + entry(8, 'U', "no function", 4) + entry(9, 'T', "", 0)
	sites := "\x90\x90\xb8\x0d\x00\x00\x00" + strings.Repeat("a", rawSignalSpan) + "\x0f\x05" + strings.Repeat("b", 40) + "\x6a\x0e\x58\x0f\x05\x90"
	const goNote = "\x04\x00\x00\x00\x20\x00\x00\x00\x04\x00\x00\x00Go\x00\x00"
	for _, c := range []struct {
		name, text      string
		soname, section string
		interp, note    bool
		flags           uint32
	}{
		{"glibc", "\x00GNU C Library stable release version 2.13.1;, by\x00\x00NPTL 2.5\x00*** glibc detected ***", "", "", false, false, elf.PFR | elf.PFX},
		{"in development", "development release version 2.12345678901", "libc.so.6", "", false, false, elf.PFR},
		{"only parts of a version", "NPTL .5\x00NPTL 2.\x00NPTL 25", "", "", false, false, elf.PFR},
		{"EGLIBC", "EGLIBC 2. EGLIBC 2.11-1\x00musl libc", "", "", false, false, elf.PFR},
		{"another libc", "uClibc-0.9\x00musl libc\x00*** glibc detected **", "libc.so.0", "", false, false, elf.PFR},
		{"libpthread", "\x002.\x002.1x\x002.4\x00\x002.5\x00", "libpthread.so.0", "", false, false, elf.PFR | elf.PFX},
		{"librt and NPTL", "\x002.4\x00NPTL 2.5", "librt.so.1", "", false, false, elf.PFR},
		{"in data", "NPTL 2.5\x00\xfb\xff\xff\xff\x00\x00\x01\x08", "", "", false, false, elf.PFR | elf.PFW},
		{"signals", sites, "", "", true, false, elf.PFR | elf.PFX},
		{"signals at the start", "\x6a\x0d\x58\x0f\x05\x90", "", "", true, false, elf.PFR | elf.PFX},
		{"signals far from the call", "\x6a\x0d\x58" + strings.Repeat("a", rawSignalSpan+1) + "\x0f\x05\x90", "", "", true, false, elf.PFR | elf.PFX},
		{"signals without a loader", sites, "", "", false, false, elf.PFR | elf.PFX},
		{"signals in data", sites, "", "", true, false, elf.PFR},
		{"signals of a libc", sites, "libc.so.6", "", true, false, elf.PFR | elf.PFX},
		{"a note of Go's", goNote, "", "", false, true, elf.PFR},
		{"no note of Go's", goNote, "", "", false, false, elf.PFR},
		{"functions of Go 1.2", "....\xfb\xff\xff\xff\x00\x00\x01\x08", "", "", false, false, elf.PFR},
		{"functions of Go 1.16", "....\xfa\xff\xff\xff\x00\x00\x01\x08", "", "", false, false, elf.PFR},
		{"functions of Go 1.18", "....\xf0\xff\xff\xff\x00\x00\x01\x08\xf1\xff\xff\xff\x00\x00\x01\x08", "", "", false, false, elf.PFR},
		{"functions of Go 1.20", "....\xf1\xff\xff\xff\x00\x00\x01\x08", "", "", false, false, elf.PFR},
		{"a function of Go's", "\x00runtime.goexit\x00", "", "", false, false, elf.PFR},
		{"named sections", "\x00runtime.goexit\x00", "", ".text", false, false, elf.PFR},
		{"a section of Go's", gosymtab, "", ".gosymtab", false, false, elf.PFR},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := func(b []byte) string {
				const strings = 0x1000 // of the table of strings, behind the text
				n := uint64(len(b))
				all := append(append(b, 0), c.soname+"\x002.3\x00"...)
				f := &elf.File{R: elf.Memory(all), Size: uint64(len(all)), Type: elf.TypeExec, Progs: []elf.Prog{
					{Type: elf.PTLoad, Flags: c.flags, Vaddr: base, Filesz: n, Memsz: n},
					{Type: elf.PTLoad, Off: n, Vaddr: base + strings, Filesz: uint64(len(all)) - n, Memsz: uint64(len(all)) - n},
				}}
				if c.note {
					f.Progs = append(f.Progs, elf.Prog{Type: elf.PTNote, Filesz: n})
				}
				if c.soname != "" {
					f.Type, f.Dynamic = elf.TypeDyn, []elf.Dyn{{Tag: elf.DTStrtab, Val: base + strings}, {Tag: elf.DTSoname, Val: 1}}
				}
				if c.interp {
					f.Progs = append(f.Progs, elf.Prog{Type: elf.PTInterp})
				}
				if c.section != "" {
					f.Sections = []elf.Section{{Name: c.section, Type: elf.SHTProgbits, Size: n}}
				}
				return fmt.Sprintf("libc %q, signals %v, Go %v, of before 1.16 %v, %v", Libc(f), RawSignals(f), Go(f), GoKeepsPage(f), GoFunctions(f))
			}
			t.Log(said([]byte(c.text)))
			recorded.Changed(t, c.name, []byte(c.text), said)
		})
	}
}
