package patch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
)

// testObject is a relocatable object: .text with relocations against symbols, one at the start of .text ("f",
// number 1) and an undefined one ("elsewhere", number 2).
type testObject struct {
	text []byte
	rela []testRela // at: offset in .text; typ: type | symbol<<8
}

const testObjectText = elf.EhdrSize // offset of .text

// R_X86_64_PC32, R_X86_64_PLT32 and R_X86_64_32S.
const relaPC32, relaPLT32, relaS32 = 2, 4, 11

// An archive's first bytes, a thin one's, and the length and the last bytes of a member's header.
const arMagic, arThin, arHeader, arMember = "!<arch>\n", "!<thin>\n", 60, "`\n"

// build returns the file: the header, .text, .rela.text, .symtab, .strtab, .shstrtab, the headers.
func (o testObject) build() []byte {
	b := pad(append(make([]byte, elf.EhdrSize), o.text...), 8)
	relaOff := len(b)
	for _, r := range o.rela {
		b = le(b, r.at, uint64(r.typ&0xff)|uint64(r.typ>>8)<<32, r.addend)
	}
	symOff := len(b)
	var names, shnames testStrings
	b = append(b, make([]byte, elf.SymSize)...)
	b = le(b, names.add("f"), byte(elf.STBLocal<<4|elf.STTFunc), byte(0), uint16(1), uint64(0), uint64(len(o.text)))
	b = le(b, names.add("elsewhere"), byte(1<<4), byte(0), uint16(0), uint64(0), uint64(0))
	strOff := len(b)
	b = append(b, names.b...)
	sections := []struct {
		name             string
		typ              uint32
		flags, off, size int
		link, info       uint32
		entsize          uint64
	}{
		{".text", elf.SHTProgbits, elf.SHFAlloc | elf.SHFExecinstr, testObjectText, len(o.text), 0, 0, 0},
		{".rela.text", elf.SHTRela, 0, relaOff, symOff - relaOff, 3, 1, elf.RelaSize},
		{".symtab", elf.SHTSymtab, 0, symOff, 3 * elf.SymSize, 4, 2, elf.SymSize},
		{".strtab", elf.SHTStrtab, 0, strOff, len(names.b), 0, 0, 0},
		{".shstrtab", elf.SHTStrtab, 0, 0, 0, 0, 0, 0},
	}
	headers := make([]byte, elf.ShdrSize)
	for _, s := range sections {
		shnames.add(s.name)
	}
	name := uint32(1)
	for _, s := range sections {
		if s.name == ".shstrtab" {
			s.off, s.size = len(b), len(shnames.b)
		}
		headers = le(headers, name, s.typ, uint64(s.flags), uint64(0), uint64(s.off), uint64(s.size), s.link, s.info, uint64(8), s.entsize)
		name += uint32(len(s.name)) + 1
	}
	b = pad(append(b, shnames.b...), 8)
	copy(b, le([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), uint16(elf.TypeRel), uint16(elf.MachineX8664), uint32(1),
		uint64(0), uint64(0), uint64(len(b)), uint32(0), uint16(elf.EhdrSize), uint16(0), uint16(0), uint16(elf.ShdrSize), uint16(len(sections)+1), uint16(len(sections))))
	return append(b, headers...)
}

// archive makes an archive of members: name, content, name, content.
func archive(members ...string) []byte {
	b := []byte(arMagic)
	for i := 0; i < len(members); i += 2 {
		b = fmt.Appendf(b, "%-16s%-12d%-6d%-6d%-8o%-10d%s", members[i], 0, 0, 0, 0o644, len(members[i+1]), arMember)
		b = pad(append(b, members[i+1]...), 2)
	}
	return b
}

func TestObject(t *testing.T) {
	const addend = 4 // of a displacement that ends its instruction
	page := func(f Function) uint64 { return f.Vaddr() - addend }
	for _, c := range []struct {
		name    string
		o       testObject
		verdict Verdict
		vaddr   uint64 // in .text
	}{
		{"mov and call", testObject{text: asm(t, movRaxTime+callRax+"c3")}, Live, 0},
		{"compared", testObject{text: asm(t, "483d000460ff 0f94c0 c3")}, Benign, 0},
		{"call", testObject{text: asm(t, "4883ec08 e800000000 4883c408 c3"), rela: []testRela{{5, relaPLT32, page(Time)}}}, Live, 4},
		{"jmp", testObject{text: asm(t, "e900000000"), rela: []testRela{{1, relaPC32, page(Gettimeofday)}}}, Live, 0},
		{"jcc", testObject{text: asm(t, "85ff 0f8400000000 c3"), rela: []testRela{{4, relaPLT32, page(Getcpu)}}}, Live, 2},
		{"lea by a relocation", testObject{text: asm(t, "488d042500000000 ffd0 c3"), rela: []testRela{{4, relaS32, Time.Vaddr()}}}, Live, 0},
		// If the field is 0, the jump seems to continue at the next instruction.
		{"a jump elsewhere", testObject{text: asm(t, movRaxTime+"e900000000 31c0 c3"), rela: []testRela{{8, relaPLT32 | 2<<8, ^uint64(3)}}}, Unknown, 0},
		{"a jump to itself", testObject{text: asm(t, "c3"+movRaxTime+"e900000000 31c0 c3"), rela: []testRela{{9, relaPLT32 | 1<<8, ^uint64(3)}}}, Unknown, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := c.o.build()
			r := scanFile(t, file)
			if !r.Object || len(r.Sites) != 1 {
				t.Fatalf("got %+v, want one site in an object", r)
			}
			s := r.Sites[0]
			if s.Verdict != c.verdict || s.Vaddr != testObjectText+c.vaddr || s.Offset != s.Vaddr {
				t.Errorf("got %v (%s) at %#x, want %v at %#x", s.Verdict, s.Reason, s.Vaddr, c.verdict, testObjectText+c.vaddr)
			}
			p, err := NewPlan(r, Options{Explain: true})
			if err != nil {
				t.Fatal(err)
			}
			if !p.Empty() || p.Size != int64(len(file)) || len(p.LeftOver()) != 0 != (c.verdict != Benign) {
				t.Errorf("got a plan of %+v", p)
			}
			if q := p.Patches[0]; c.verdict != Benign && (!strings.HasPrefix(q.Reason, "relocatable object: ") || len(q.Listing.Before) == 0) {
				t.Errorf("got %q, %+v", q.Reason, q.Listing)
			}
		})
	}
	// Only files that run are asked for: an object does not.
	if r, err := ScanWithin(bytes.NewReader(archive("a.o/", string(testObject{text: asm(t, movRaxTime+callRax+"c3")}.build()))), 1<<20, 1<<20); err != nil || r.Skipped == nil {
		t.Errorf("within: %+v, %v", r, err)
	}
}

func TestArchive(t *testing.T) {
	one := string(testObject{text: asm(t, movRaxTime+callRax+"c3")}.build())
	none := string(testObject{text: asm(t, "31c0c3")}.build())
	direct := string(testObject{text: asm(t, "e900000000"), rela: []testRela{{1, relaPC32, Time.Vaddr() - 4}}}.build())
	broken := one[:len(one)-1]
	truncated := archive("a.o/", one, "b.o/", one)
	other := []byte(one)
	other[18] = 40 // ARM
	const long = "a_name_longer_than_fifteen.o"
	for _, c := range []struct {
		name    string
		file    []byte
		members string // of the sites
		want    string // part of Skipped, or of a warning
	}{
		{"GNU", archive("/", "\x00\x00\x00\x00", "//", "x.o/\n"+long+"/\n", "a.o/", one, "/5", one, "b.o/", direct, "c.o/", none), "a.o " + long + " b.o", ""},
		{"BSD", archive("__.SYMDEF", "12345678", "#1/28", long+one, "#1/8", "c.o\x00\x00\x00\x00\x00"+one), long + " c.o", ""},
		{"none", archive("a.o/", none), "", ""},
		{"a package of Debian's", archive("debian-binary", "2.0\n", "control.tar.gz", "\x1f\x8b"), "", "archive without x86-64 objects"},
		{"for another machine", archive("a.o/", string(other)), "", "archive without x86-64 objects"},
		{"in another one", archive("in.a/", string(archive("a.o/", one))), "", "archive without x86-64 objects"},
		{"a program in it", archive("p/", string((&testELF{text: asm(t, timeStubText)}).build())), "", "archive without x86-64 objects"},
		{"empty", []byte(arMagic), "", "archive without x86-64 objects"},
		{"thin", []byte(arThin), "", "thin archive"},
		{"a damaged member", archive("a.o/", broken, "b.o/", one), "b.o", "archive member a.o: damaged ELF"},
		{"nothing but a damaged member", archive("a.o/", broken), "", "archive member a.o: damaged ELF"},
		{"cut off in a member", truncated[:len(truncated)-8], "a.o", "damaged archive: header of a member"},
		{"cut off in a header", truncated[:len(truncated)-len(one)-20], "a.o", "damaged archive: ends inside"},
		{"a name beyond the names", archive("//", "x.o/\n", "/5", one), "", "damaged archive: name"},
		{"a name longer than the member", archive("#1/99999", one), "", "damaged archive: name"},
		{"a name that is not a number", archive("/x", one), "", "damaged archive: name"},
		{"a name of control characters", archive("a\x1b[31m.o/", one), "a?[31m.o", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := scanFile(t, c.file)
			p, err := NewPlan(r, Options{})
			if err != nil {
				t.Fatal(err)
			}
			var members []string
			for _, q := range p.LeftOver() {
				members = append(members, q.Site.Member)
				if !strings.Contains(q.Reason, "archive member "+q.Site.Member+":") {
					t.Errorf("got the reason %q", q.Reason)
				}
				if q.Site.Kind == MovImm32 && !bytes.HasPrefix(c.file[q.Site.Offset:], asm(t, movRaxTime)) {
					t.Errorf("no reference at offset %#x", q.Site.Offset)
				}
			}
			if got := strings.Join(members, " "); got != c.members {
				t.Errorf("got sites in %q, want %q", got, c.members)
			}
			if said := r.Skipped.String() + strings.Join(p.Warnings, ""); !strings.Contains(said, c.want) || c.want == "" && said != "" {
				t.Errorf("got %q, want %q", said, c.want)
			}
			if r.Skipped.Damaged() != (c.members == "" && strings.Contains(c.want, "damaged")) {
				t.Errorf("damaged: %v", r.Skipped.Damaged())
			}
		})
	}
}

// TestArchiveLibc: the first object that has one names the C library.
func TestArchiveLibc(t *testing.T) {
	object := func(text string) string {
		return string(testObject{text: asm(t, movRaxTime+callRax+"c3"+text)}.build())
	}
	r := scanFile(t, archive("a.o/", object(""), "b.o/", object(glibcText("2.5")), "c.o/", object(glibcText("2.13"))))
	if r.Libc != "glibc 2.5" || len(r.Sites) != 3 {
		t.Errorf("got %q, %d sites", r.Libc, len(r.Sites))
	}
}

// zeros reads as an archive with an endless number of empty members.
type zeros struct{ header []byte }

func (z zeros) ReadAt(b []byte, off int64) (int, error) {
	for i := range b {
		at := off + int64(i)
		if b[i] = arMagic[at%8]; at >= 8 {
			b[i] = z.header[(at-8)%arHeader]
		}
	}
	return len(b), nil
}

func TestArchiveBounds(t *testing.T) {
	r, err := Scan(zeros{archive("a/", "")[8:]}, 1<<40)
	if err != nil || !r.Skipped.Damaged() || !strings.Contains(r.Skipped.String(), "members") {
		t.Errorf("got %+v, %v", r, err)
	}
	// All members share the work that is done for one file.
	slow := []string{"a.o/", string(testObject{text: asm(t, movRaxTime+callRax+"c3")}.build())}
	loop := asm(t, movR13Time+strings.Repeat("90", 1<<15)+"41ffd5 c3")
	for range 2 * maxSteps >> 15 {
		slow = append(slow, "a.o/", string(testObject{text: loop}.build()))
	}
	left := scanLong(t, archive(slow...)).Sites
	if len(left) != len(slow)/2 || left[0].Verdict != Live || left[len(left)-1].Reason != "too much code to follow in this file" {
		t.Errorf("got %d sites, the first %+v, the last %+v", len(left), left[0], left[len(left)-1])
	}
	const pairs, table = 4000, 1 << 15 // more than half of what one file may have
	text := asm(t, timeStubText)
	for range pairs {
		text = rel32(rel32(text, 18, opLea...), 14*pairs+18, opLea...)
	}
	tables := string(testObject{text: append(text, make([]byte, table)...)}.build())
	left = scanLong(t, archive("a.o/", tables, "b.o/", tables)).Sites
	if len(left) != 2 || left[0].Verdict != Live || left[1].Reason != "too much code to follow in this file" {
		t.Errorf("tables: got %+v", left)
	}
	// Sections that cover each other would make much work of a small file.
	file := testObject{text: asm(t, movRaxTime+callRax+"c3")}.build()
	at := binary.LittleEndian.Uint64(file[40:]) + 2*elf.ShdrSize
	copy(file[at:], le(nil, uint32(0), uint32(elf.SHTProgbits), uint64(elf.SHFAlloc), uint64(0), uint64(testObjectText), uint64(8)))
	if r := scanFile(t, file); !r.Skipped.Damaged() || !strings.Contains(r.Skipped.String(), "overlap") {
		t.Errorf("overlapping sections: %+v", r)
	}
}

// TestArchiveReads: a failing read is an error, never a verdict.
func TestArchiveReads(t *testing.T) {
	file := archive("//", "x.o/\n", "/0", string(testObject{text: asm(t, movRaxTime+"e900000000 c3"), rela: []testRela{{8, relaPLT32 | 1<<8, 0}}}.build()))
	broken := errors.New("the disk is on fire")
	for n := 0; n < 100; n++ {
		left := n
		_, err := Scan(failing{Reader: bytes.NewReader(file), err: broken, left: &left}, int64(len(file)))
		if left >= 0 {
			if err != nil || n < 5 {
				t.Errorf("%d reads: %v", n, err)
			}
			return
		}
		if !errors.Is(err, broken) {
			t.Errorf("read %d failed, and Scan: %v", n, err)
		}
	}
	t.Error("Scan reads without end")
}

var _ io.ReaderAt = zeros{}

// thinMember is an object in memory that is read until it is closed.
type thinMember struct {
	*bytes.Reader
	closed *int
	gone   bool
}

func (m *thinMember) ReadAt(b []byte, off int64) (int, error) {
	if m.gone {
		return 0, io.ErrClosedPipe
	}
	return m.Reader.ReadAt(b, off)
}

func (m *thinMember) Close() error {
	*m.closed++
	m.gone = true
	return nil
}

// TestThin reads the objects of a thin archive from elsewhere.
func TestThin(t *testing.T) {
	calls := testObject{text: asm(t, movRaxTime+callRax+"c3")}.build()
	clean := testObject{text: []byte{0xc3}}.build()
	header := func(name string, size int) string {
		return fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, 0, 0, 0, "644", size)
	}
	names := "deep/calls.o/\n../out.o/\n"
	file := arThin + header("//", len(names)) + names + header("/0", len(calls)) + header("clean.o/", len(clean)) + header("/14", 5) + header("gone.o/", 1<<30)
	closed := 0
	r, err := ScanThin(strings.NewReader(file), int64(len(file)), func(name string) (ThinMember, error) {
		switch name {
		case "deep/calls.o":
			return &thinMember{Reader: bytes.NewReader(calls), closed: &closed}, nil
		case "clean.o":
			return &thinMember{Reader: bytes.NewReader(clean), closed: &closed}, nil
		}
		return nil, fmt.Errorf("no %s", name)
	})
	if err != nil || len(r.Sites) != 1 || r.Sites[0].Member != "deep/calls.o" || closed != 2 {
		t.Fatalf("got %+v, %v, %d closed", r, err, closed)
	}
	p, err := NewPlan(r, Options{Explain: true})
	if err != nil || len(p.LeftOver()) != 1 || len(p.Warnings) != 2 || p.Patches[0].Listing == nil {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, other := range []string{"", "!<arch>\n", "\x7fELF"} {
		if r, err := ScanThin(strings.NewReader(other), int64(len(other)), nil); r != nil || err != nil {
			t.Errorf("%q: got %+v, %v", other, r, err)
		}
	}
	if _, err := ScanThin(strings.NewReader(""), 8, nil); err == nil {
		t.Error("a file that has become shorter: got no error")
	}
	if r, err := ScanThin(strings.NewReader(file[:90]), 90, nil); err != nil || !r.Skipped.Damaged() {
		t.Errorf("cut short: got %+v, %v", r, err)
	}
}
