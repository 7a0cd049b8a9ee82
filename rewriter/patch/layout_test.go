package patch

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	. "vfix.dev/vfix/rewriter/find"
)

// reprog rewrites the program headers of a file.
func reprog(t *testing.T, file []byte, change func([]elf.Prog) []elf.Prog) []byte {
	t.Helper()
	f, err := elf.Parse(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	n := len(f.Progs)
	b := []byte{}
	for _, p := range change(f.Progs) {
		b = le(b, p.Type, p.Flags, p.Off, p.Vaddr, p.Paddr, p.Filesz, p.Memsz, p.Align)
	}
	if len(b) != n*elf.PhdrSize {
		t.Fatalf("%d bytes of program headers, want %d", len(b), n*elf.PhdrSize)
	}
	return append(append(bytes.Clone(file[:f.PhOff]), b...), file[int(f.PhOff)+len(b):]...)
}

// TestLayouts is about files with unusual layouts: patched correctly, left with a reason, or refused.
func TestLayouts(t *testing.T) {
	const anyNumber = -1
	site := asm(t, "53"+movRaxTime+callRax+"5b c3") // 12 bytes
	loads := func(ps []elf.Prog) (all []*elf.Prog) {
		for i := range ps {
			if ps[i].Type == elf.PTLoad {
				all = append(all, &ps[i])
			}
		}
		return all
	}
	each := func(change func(first, second *elf.Prog)) func([]elf.Prog) []elf.Prog {
		return func(ps []elf.Prog) []elf.Prog {
			l := loads(ps)
			change(l[0], l[1])
			return ps
		}
	}
	same := func(ps []elf.Prog) []elf.Prog { return ps }
	exec := func(flags uint32) func([]elf.Prog) []elf.Prog {
		return each(func(_, second *elf.Prog) { second.Flags = flags })
	}
	for _, c := range []struct {
		name    string
		data    bool // a second site is in the data
		text    bool // a first one in the text
		change  func([]elf.Prog) []elf.Prog
		symbols bool // the one in the data has a symbol
		sites   int
		forms   []Form
		skipped string
	}{
		{"as usual", false, true, same, false, 1, []Form{Lea}, ""},
		{"two executable segments", true, true, exec(elf.PFR | elf.PFX), true, 2, []Form{Lea, Lea}, ""},
		{"one that is also writable", true, true, exec(elf.PFR | elf.PFW | elf.PFX), true, 2, []Form{Lea, Lea}, ""},
		{"one that is only executable", true, true, exec(elf.PFX), true, 2, []Form{Lea, Lea}, ""},
		{"one with a byte of the file", true, true, each(func(_, second *elf.Prog) { second.Flags, second.Filesz = elf.PFR|elf.PFX, 1 }), false, 2, []Form{Left, Left}, ""},
		{"the text is writable", false, true, each(func(first, _ *elf.Prog) { first.Flags |= elf.PFW }), false, 1, []Form{Lea}, ""},
		{"huge p_align", false, true, each(func(first, second *elf.Prog) { first.Align, second.Align = 1<<40, 1<<40 }), false, 1, []Form{Lea}, ""},
		{"p_align that is not a power of two", false, true, each(func(first, second *elf.Prog) { first.Align, second.Align = 0x201000, 3 }), false, 1, []Form{Lea}, ""},
		{"p_align 0", false, true, each(func(first, second *elf.Prog) { first.Align, second.Align = 0, 0 }), false, 1, []Form{Lea}, ""},
		{"segments overlap", false, true, each(func(first, second *elf.Prog) { second.Vaddr = first.Vaddr + 0x800 }), false, anyNumber, []Form{Left}, ""},
		{"one begins in a page of the other, which is elsewhere in the file", true, true, each(func(first, second *elf.Prog) {
			const n = 0x80
			second.Flags, second.Vaddr = elf.PFR|elf.PFX, elf.PageUp(first.Vaddr+first.Memsz)-elf.PageSize+n
			second.Off, second.Filesz, second.Memsz = second.Off+n, second.Filesz-n, second.Filesz-n
		}), false, anyNumber, []Form{Left}, ""},
		{"segments are out of order", false, true, each(func(first, second *elf.Prog) { *first, *second = *second, *first }), false, anyNumber, []Form{Left}, ""},
		{"segments are out of order, without a site", false, false, each(func(first, second *elf.Prog) { *first, *second = *second, *first }), false, 0, nil, "overlaps or precedes"},
		{"the text is mapped twice", false, true, each(func(first, second *elf.Prog) {
			vaddr := second.Vaddr &^ 0xfff
			*second = *first
			second.Vaddr, second.Paddr = vaddr, vaddr
		}), false, anyNumber, []Form{Left}, ""},
		{"the text is mapped once more as data", false, true, each(func(first, second *elf.Prog) {
			vaddr := second.Vaddr &^ 0xfff
			*second = *first
			second.Vaddr, second.Paddr, second.Flags = vaddr, vaddr, elf.PFR
		}), false, 1, []Form{Left}, ""},
	} {
		for _, bare := range []bool{false, true} {
			for _, dyn := range []bool{false, true} {
				name := c.name
				if bare {
					name += ", no section headers"
				}
				if dyn {
					name += ", ET_DYN"
				}
				t.Run(name, func(t *testing.T) {
					e := testELF{dyn: dyn, bare: bare, text: bytes.Clone(site), dynamic: true, comment: gcc4}
					if !c.text {
						e.text = []byte{0x53, 0x5b, 0xc3}
					}
					e.symbols = []testSym{{"f", e.textVaddr(), 12, elf.STTFunc, 1}}
					if c.data {
						e.data = slices.Concat(make([]byte, 16), site, make([]byte, 4))
						e.symbols = append(e.symbols, testSym{"g", e.dataVaddr() + 16, 12, elf.STTFunc, 1})
					}
					file := reprog(t, e.build(), c.change)
					r := scanFile(t, file)
					if !strings.Contains(r.Skipped.String(), c.skipped) || (r.Skipped == nil) != (c.skipped == "") || len(r.Sites) != c.sites && c.sites != anyNumber {
						t.Fatalf("skipped %q, want %q; got %d sites, want %d: %+v", r.Skipped, c.skipped, len(r.Sites), c.sites, r.Sites)
					}
					if r.Skipped != nil {
						return
					}
					p := planFile(t, file, Options{})
					if len(p.LeftOver()) == 0 && slices.Contains(c.forms, Left) {
						t.Error("it is not a finding")
					}
					for i, form := range c.forms {
						if c.name == "huge p_align" && dyn {
							form = Left // no hole below the second segment, and it may be an interpreter
						}
						if p.Patches[i].Form != form {
							t.Errorf("site %d: got %v (%s), want %v", i, p.Patches[i].Form, p.Patches[i].Reason, form)
						}
					}
					checkPatched(t, file, p, Options{})
				})
			}
		}
	}
}

// TestSeam: an instruction that begins in one segment and ends in the next one, from another place in the file.
func TestSeam(t *testing.T) {
	site := asm(t, movRaxTime+callRax+"c3")
	for n := 1; n < 7; n++ {
		e := testELF{text: make([]byte, 2*elf.PageSize), data: append(bytes.Clone(site[n:]), make([]byte, 32)...)}
		copy(e.text[elf.PageSize-n:], site[:n])
		file := reprog(t, e.build(), func(ps []elf.Prog) []elf.Prog {
			var loads []*elf.Prog
			for i := range ps {
				if ps[i].Type == elf.PTLoad {
					loads = append(loads, &ps[i])
				}
			}
			loads[0].Filesz -= elf.PageSize
			loads[0].Memsz = loads[0].Filesz
			loads[1].Vaddr, loads[1].Flags = loads[0].Vaddr+loads[0].Memsz, elf.PFR|elf.PFX
			return ps
		})
		r := scanFile(t, file)
		if len(r.Sites) != 1 || r.Sites[0].Verdict != Unknown || r.Sites[0].Vaddr != e.textVaddr()+elf.PageSize-uint64(n) {
			t.Errorf("%d bytes before the seam: got %+v", n, r.Sites)
		}
	}
}

// TestLyingSections: bytes outside of code according to the section headers may be executed nevertheless.
func TestLyingSections(t *testing.T) {
	for _, c := range []struct {
		name string
		e    testELF
		want int
		form Form
	}{
		{"the entry point is in no section of code", testELF{rodataFirst: 64}, 1, Lea},
		{"a function is in no section of code", testELF{rodataFirst: 64, entry: testBase + testTextOff + 64, symbols: []testSym{{"f", testBase + testTextOff, 12, elf.STTFunc, 1}}}, 1, Lea},
		{"data that looks like it", testELF{rodataFirst: 64, entry: testBase + testTextOff + 64, symbols: []testSym{{"f", testBase + testTextOff, 12, 1, 1}}}, 1, Left},
	} {
		text := append(asm(t, "53"+movRaxTime+callRax+"5b c3"), make([]byte, 64)...)
		c.e.text = append(text[:64], 0xc3)
		file := c.e.build()
		r := scanFile(t, file)
		if len(r.Sites) != c.want {
			t.Errorf("%s: got %+v, want %d sites", c.name, r.Sites, c.want)
			continue
		}
		if c.want > 0 {
			if p := planFile(t, file, Options{}); p.Patches[0].Form != c.form {
				t.Errorf("%s: got %v (%s)", c.name, p.Patches[0].Form, p.Patches[0].Reason)
			}
		}
	}
}

// TestX32 is about programs with pointers of 32 bits, which are skipped with their own reason.
func TestX32(t *testing.T) {
	e := testELF{text: asm(t, movRaxTime+callRax+"c3")}
	file := e.build()
	file[4] = 1                                  // EI_CLASS
	binary.LittleEndian.PutUint16(file[54:], 32) // where the file has none, for its header is shorter
	if r := scanFile(t, file); !strings.Contains(r.Skipped.String(), "x32") || r.Skipped.Damaged() || !r.Skipped.MayCall() {
		t.Errorf("got %+v", r)
	}
	binary.LittleEndian.PutUint16(file[18:], 3) // EM_386
	if r := scanFile(t, file); r.Skipped.String() != "32-bit ELF" || r.Skipped.MayCall() {
		t.Errorf("got %+v", r)
	}
}
