package patch

import (
	"encoding/binary"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// goTable is a .gosymtab of Go 1.0, or of Go 1.1.
func goTable(later bool, symbols ...testSym) []byte {
	var b []byte
	if later {
		b = []byte("\xfd\xff\xff\xff\x00\x00\x00\x08")
	}
	for _, s := range symbols {
		typ := byte('T')
		if s.name == "" {
			typ = 'z'
		}
		switch {
		case !later:
			b = append(binary.BigEndian.AppendUint32(b, uint32(s.value)), typ|0x80)
		case typ == 'z':
			b = append(b, typ-'a'+26, 1)
		default:
			b = le(append(b, (typ-'A')|0xc0), s.value, uint64(0))
		}
		if b = append(append(b, s.name...), 0); typ == 'z' {
			b = append(b, "\x00\x01\x00\x02\x00\x00"...)
		}
		if !later {
			b = append(b, 0, 0, 0, 0)
		}
	}
	return b
}

// TestStrippedGo: Go's own table names the functions after strip.
func TestStrippedGo(t *testing.T) {
	const at = testBase + testTextOff
	// time.now of Go 1.0.2: the calls are in the middle of a function, behind other ones.
	text := asm(t, "c3 909090909090909090909090909090 4883ec20 488d7c2408 48c7c600000000"+movRaxTime+callRax+"488b442408 4883c420 c3")
	symbols := []testSym{{"", 0, 0, 0, 0}, {"runtime.goexit", at, 1, elf.STTFunc, 1}, {"time.now", at + 16, 0, elf.STTFunc, 1}, {"etext", at + uint64(len(text)), 0, elf.STTFunc, 1}}
	for name, e := range map[string]testELF{
		"Go 1.0":      {gosymtab: goTable(false, symbols...)},
		"Go 1.1":      {gosymtab: goTable(true, symbols...)},
		"cut":         {gosymtab: goTable(false, symbols...)[:60]},
		"no sections": {bare: true, gosymtab: goTable(false, symbols...)},
	} {
		t.Run(name, func(t *testing.T) {
			if e.text = text; e.bare {
				e.text = append(text[:len(text):len(text)], e.gosymtab...)
			}
			file := e.build()
			r := scanFile(t, file)
			if !r.Go || len(r.Sites) != 1 {
				t.Fatalf("Go %v, %d sites", r.Go, len(r.Sites))
			}
			p := planFile(t, file, Options{})
			if q := p.Patches[0]; q.Form != Syscall && name[:2] == "Go" || q.Form != Syscall && q.Form != Left || name[:2] == "Go" && q.Site.Symbol != "time.now" {
				t.Errorf("%v in %q: %s", q.Form, q.Site.Symbol, q.Reason)
			}
			checkPatched(t, file, p, Options{})
		})
	}
}
