package rewriter

import (
	"bytes"
	"debug/elf"
	"testing"
)

// TestTestELF checks the builder with another reader.
func TestTestELF(t *testing.T) {
	for _, e := range []testELF{
		{text: []byte{0xc3}},
		{text: []byte{0xc3}, dyn: true, tight: true, soname: "libx.so.1", notes: 2, fdes: []uint64{testTextOff},
			symbols: []testSym{{name: "time", value: testTextOff, size: 1, typ: sttFunc, bind: 1}},
			rela:    []testRela{{at: 0x2000, typ: rRelative, addend: testTextOff}}},
		{text: []byte{0xc3}, bare: true, interp: "/lib64/ld-linux-x86-64.so.2", notes: -1},
	} {
		f, err := elf.NewFile(bytes.NewReader(e.build()))
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		if text := f.Section(".text"); e.bare != (text == nil) {
			t.Errorf("%+v: .text is %v", e, text)
		}
		if e.dyn {
			syms, err := f.DynamicSymbols()
			if err != nil || len(syms) != 1 || syms[0].Name != "time" {
				t.Errorf("dynamic symbols %v, %v", syms, err)
			}
			if names, err := f.DynString(elf.DT_SONAME); err != nil || names[0] != e.soname {
				t.Errorf("DT_SONAME %v, %v", names, err)
			}
		}
	}
}
