package patch

import (
	"encoding/binary"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// goTable is a .gosymtab of Go 1.0.
func goTable(symbols ...testSym) []byte {
	var b []byte
	for _, s := range symbols {
		typ := byte('T')
		if s.name == "" {
			typ = 'z'
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(s.value)), typ|0x80)
		if b = append(append(b, s.name...), 0); typ == 'z' {
			b = append(b, "\x00\x01\x00\x02\x00\x00"...)
		}
		b = append(b, 0, 0, 0, 0)
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
		"Go 1.0":      {gosymtab: goTable(symbols...)},
		"Go 1.1's":    {gosymtab: append([]byte("\xfd\xff\xff\xff\x00\x00\x00\x08"), goTable(symbols...)...)},
		"cut":         {gosymtab: goTable(symbols...)[:60]},
		"no sections": {bare: true, gosymtab: goTable(symbols...)},
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
			if q := p.Patches[0]; q.Form != Syscall && name == "Go 1.0" || q.Form != Syscall && q.Form != Left || name == "Go 1.0" && q.Site.Symbol != "time.now" {
				t.Errorf("%v in %q: %s", q.Form, q.Site.Symbol, q.Reason)
			}
			checkPatched(t, file, p, Options{})
		})
	}
}
