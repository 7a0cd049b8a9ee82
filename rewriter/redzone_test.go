package rewriter

import (
	"strings"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// TestRedZone: a function with data below its stack pointer gets no trampoline.
func TestRedZone(t *testing.T) {
	const at = testBase + testTextOff
	fn := []testSym{{"f", at, 100, elf.STTFunc, 0}}
	const body = movRaxTime + callRax
	for _, c := range []struct {
		name, text string
		form       Form
	}{
		{"below rsp, mov and call", "48897c24c0" + body + "488b5424c0 c3", Left},
		{"below rsp, apart", "48897c24c0" + movRaxTime + "31ff" + callRax + "488b5424c0 c3", Left},
		{"below rsp, nobody misses rcx and r11", "48897c24c0" + body + "488b5424c0" + setsAll + "c3", Syscall},
		{"an array below rsp", "48897cc4c0" + body + "c3", Left},
		{"below rbp, which is rsp", "55 4889e5 48897dc0" + body + "488b55c0 5d c3", Left},
		{"an array below rbp", "55 4889e5 48897cc5c0" + body + "5d c3", Left},
		{"an address below rsp", "488d7c24c0" + body + "c3", Left},
		{"stored and called", "48897c24c0 48c744 24f0 000460ff ff5424f0 c3", Left},
		{"pushed and called", "48897c24c0 68 000460ff 58" + callRax + "c3", Left},
		{"below rbp, in room made by sub", "55 4889e5 4883ec40 48897dc0" + body + "488b55c0 c9 c3", Call},
		{"below rbp, in room made by lea", "55 4889e5 488d6424c0 48897dc0" + body + "488b55c0 c9 c3", Call},
		{"below what is pushed", "55 4889e5 53 4883ec08 48895df8" + body + "c9 c3", Call},
		{"above rsp", "4883ec18 48897c2408" + body + "4883c418 c3", Call},
		{"stack of another depth", "55 4889e5 4883e4e0 48897dc0" + body + "c9 c3", Left},
		{"stack of another depth, with room", "55 4889e5 4883e4e0 4883ec40 48897dc0" + body + "c9 c3", Call},
		{"at its end", "48897c24c0 488b5424c0" + movRaxTime + "ffe0", Call},
		{"at what is no end", "48897c24c0 488d0500000000 50" + movRaxTime + "ffe0", Left},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testELF{text: asm(t, c.text), symbols: fn}
			file := e.build()
			p := planFile(t, file, Options{})
			if len(p.Patches) != 1 {
				t.Fatalf("got %+v", p.Patches)
			}
			q := p.Patches[0]
			if q.Form != c.form || c.form == Left && (q.Reason != belowStack || q.Site.Verdict != Live) {
				t.Errorf("got %v (%s), %v (%s); want %v", q.Site.Verdict, q.Site.Reason, q.Form, q.Reason, c.form)
			}
			checkPatched(t, file, p, Options{})
		})
	}
	// Made wrongly on purpose, it fails.
	e := testELF{text: asm(t, "48897c24c0"+body+"c3"), symbols: fn}
	p := planFile(t, e.build(), Options{})
	q := &p.Patches[0]
	place, err := p.file.findRoom()
	if err != nil {
		t.Fatal(err)
	}
	q.Form = Lea
	if q.Vaddr, q.After, err = encode(&q.Site, Lea, place.vaddr, nil); err != nil {
		t.Fatal(err)
	}
	q.Before, p.Edits = make([]byte, len(q.After)), []Edit{{}}
	if err := p.prove(); err == nil || !strings.Contains(err.Error(), belowStack) {
		t.Errorf("a trampoline over a red zone: %v", err)
	}
}

// TestInside: what something refers to the middle of is more than one instruction.
func TestInside(t *testing.T) {
	const at = testBase + testTextOff
	fn := []testSym{{"f", at, 100, elf.STTFunc, 0}}
	far := strings.Repeat("90", maxSpan)
	for name, text := range map[string]string{
		"a jump from elsewhere":              "53" + movRaxTime + "31ff" + callRax + "5b c3" + strings.Repeat("90", 100) + "e9 8dffffff",
		"a jump to the immediate":            "53" + movRaxTime + "31ff" + callRax + "5b c3" + strings.Repeat("90", 100) + "e9 8cffffff",
		"a call far behind":                  "53" + movRaxTime + far + callRax + "5b c3" + strings.Repeat("90", 100) + "e9 4effffff",
		"what is no code that is known":      "53" + movRaxTime + "31ff" + callRax + "5b c3" + strings.Repeat("90", 100) + "e9 8dffffff",
		"the same, and nothing refers to it": "53" + movRaxTime + far + callRax + "5b c3" + strings.Repeat("90", 100) + "e9 47ffffff",
	} {
		t.Run(name, func(t *testing.T) {
			code := asm(t, text)
			e := testELF{text: code, symbols: append(fn, testSym{"g", at + uint64(len(code)) - 5, 5, elf.STTFunc, 0})}
			if strings.Contains(name, "known") {
				e.symbols = fn
			}
			p := planFile(t, e.build(), Options{})
			want := Left
			if strings.Contains(name, "is no ") || strings.Contains(name, "nothing") {
				want = Lea
			}
			if q := p.Patches[0]; q.Form != want {
				t.Errorf("got %v (%s), want %v", q.Form, q.Site.Reason, want)
			}
		})
	}
}
