package shim

import (
	"bytes"
	"debug/elf"
	"testing"
)

// The libraries are what ld.so of their class takes, and need no other.
func TestLibraries(t *testing.T) {
	for _, c := range []struct {
		name    string
		data    []byte
		class   elf.Class
		machine elf.Machine
		symbols bool
	}{
		{"libvfix.so", Library(), elf.ELFCLASS64, elf.EM_X86_64, true},
		{"the 32-bit libvfix.so", Library32(), elf.ELFCLASS32, elf.EM_386, false},
	} {
		f, err := elf.NewFile(bytes.NewReader(c.data))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if f.Class != c.class || f.Machine != c.machine || f.Type != elf.ET_DYN {
			t.Errorf("%s: got %v %v %v, want %v %v %v", c.name, f.Class, f.Machine, f.Type, c.class, c.machine, elf.ET_DYN)
		}
		if needed, err := f.ImportedLibraries(); err != nil || len(needed) > 0 {
			t.Errorf("%s: needs %v (%v), want nothing", c.name, needed, err)
		}
		if name, err := f.DynString(elf.DT_SONAME); err != nil || len(name) != 1 || name[0] != "libvfix.so" {
			t.Errorf("%s: named %v (%v), want libvfix.so", c.name, name, err)
		}
		for _, tag := range []elf.DynTag{elf.DT_HASH, elf.DT_GNU_HASH} {
			if v, err := f.DynValue(tag); err != nil || len(v) != 1 {
				t.Errorf("%s: %v: got %v (%v), want one", c.name, tag, v, err)
			}
		}
		if symbols, err := f.DynamicSymbols(); err == nil && len(symbols) > 0 != c.symbols {
			t.Errorf("%s: %d symbols", c.name, len(symbols))
		}
	}
}

// A caller that changes what it got changes nothing for the next.
func TestLibraryIsACopy(t *testing.T) {
	Library()[0]++
	Library32()[0]++
	if Library()[0] != 0x7f || Library32()[0] != 0x7f {
		t.Error("the embedded library was changed")
	}
}
