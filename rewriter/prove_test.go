package rewriter

import (
	"encoding/binary"
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/shim"
)

// TestProve: patches made wrongly on purpose do not pass.
func TestProve(t *testing.T) {
	const at = testBase + testTextOff
	fn := []testSym{{"f", at, 100, elf.STTFunc, 0}}
	for _, c := range []struct {
		name, text string
		form       Form
		plain      bool
		want       string // part of the error
	}{
		{"call over a load", "53" + movRaxTime + callRax + "5b c3", Call, false, "more or less than the reference"},
		{"plain under live registers", "53" + movRaxTime + callRax + "4889d0 5b c3", Lea, true, "register"},
		{"lea, as it should be", "53" + movRaxTime + callRax + "5b c3", Lea, false, ""},
		{"entry over what is no stub", "53" + movRaxTime + callRax + "5b c3", Entry, false, "more than a stub"},
		{"syscall where rcx may be read", "53" + movRaxTime + callRax + "5b c3", Syscall, false, "rcx or r11"},
		{"data", "c3" + movRaxTime + callRax + "c3", Lea, false, "nothing calls the page"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testELF{text: asm(t, c.text), symbols: fn}
			p := planFile(t, e.build(), Options{})
			q := &p.Patches[0]
			q.Form, q.Site.Stub = c.form, Extent{}
			if c.form == Entry {
				q.Site.Stub = Extent{at, 12}
			}
			place, err := p.file.findRoom()
			if err != nil {
				t.Fatal(err)
			}
			if q.Vaddr, q.After, err = encode(&q.Site, c.form, place.vaddr, nil); err != nil {
				t.Fatal(err)
			}
			if d := q.After[len(q.After)-4:]; c.plain {
				binary.LittleEndian.PutUint32(d, binary.LittleEndian.Uint32(d)+shim.Injected().Time.Plain-shim.Injected().Time.Keep)
			}
			q.Before, _ = p.file.Mem(q.Vaddr, uint64(len(q.After)))
			p.Edits = append(p.Edits, Edit{})
			err = p.prove()
			if got := err == nil; got != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
