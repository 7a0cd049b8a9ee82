package patch

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "vfix.dev/vfix/rewriter/find"
)

// Look finds the call before the return address of each live call site of the fixtures, and its function.
func TestLook(t *testing.T) {
	dir := filepath.Join("..", "..", "tests", "build", "fixtures")
	looked := 0
	for _, name := range []string{"static-4k", "static-2m-noshdr", "exec-4k", "pie", "libstubs.so", "direct"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Skipf("make fixtures has not been run: %v", err)
		}
		report, err := Scan(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range report.Sites {
			if s.Verdict != Live || s.Tail || s.Call == 0 {
				continue
			}
			looked++
			ret := s.Call + uint64(s.CallLen)
			p, err := Look(bytes.NewReader(b), int64(len(b)), s.Offset+(ret-s.Vaddr))
			if err != nil || p.Skipped != nil || p.Vaddr != ret || p.Call == nil || p.Call.Vaddr != s.Call {
				t.Errorf("%s: return to %#x: got %+v, %v", name, ret, p, err)
				continue
			}
			if !strings.HasPrefix(p.Call.Text, "call") || s.Symbol != "" && p.Symbol != s.Symbol || p.Symbol != "" && (p.Start == 0 || p.Start > s.Call) {
				t.Errorf("%s: return to %#x: got %q in %q from %#x, want a call in %q", name, ret, p.Call.Text, p.Symbol, p.Start, s.Symbol)
			}
			if n := len(p.Lines); n == 0 || p.Lines[0].Vaddr > s.Call || p.Lines[n-1].Vaddr < ret {
				t.Errorf("%s: return to %#x: the listing does not go around it: %v", name, ret, p.Lines)
			}
		}
	}
	if looked < 20 {
		t.Errorf("only %d call sites in the fixtures", looked)
	}
}

// Look finds the shortest call that ends at the address, and lists what is before it in its function, or in a long one a
// few bytes.
func TestLookBefore(t *testing.T) {
	nops := func(n int) string { return strings.Repeat("90", n) }
	for _, c := range []struct {
		name, code  string
		known       bool // the start of the function
		call, first int  // offsets of the call and of the listing; -1: none
	}{
		{"a register", "90 ffd0", false, 1, 1},
		{"a register of 64 bits alone", "90 41ffd1", false, 1, 1},
		{"at the beginning", "ffd0", false, 0, 0},
		{"memory", "90 ff5008", false, 1, 1},
		{"a variable", "90 ff1544332211", false, 1, 1},
		{"an element", "90 ff94d878563412", false, 1, 1},
		{"a function", "90 e810000000", false, 1, 1},
		{"a function, behind what may be a prefix", "4883ec48 e810000000", false, 4, 4},
		{"with two prefixes", "2e4066e844332211", false, 3, 3},
		{"a jump", "90 ffe0", false, -1, -1},
		{"a call before it", "ffd0 90", false, -1, -1},
		{"in a known function", "90 ffd0", true, 1, 0},
		{"in a longer one", nops(62) + "ffd0", true, 62, 0},
		{"in one that is too long", nops(63) + "ffd0", true, 63, 41},
		{"in a function that is not known", nops(62) + "ffd0", false, 62, 62},
		{"in one that another instruction seems to end", "06 90 ffd0", true, 2, 2},
		{"in another instruction", "90 b8ffd0ffd0", true, 4, 4},
	} {
		e := testELF{dyn: true, dynamic: true, text: asm(t, c.code)}
		ret := e.textVaddr() + uint64(len(e.text))
		if e.entry = ret; c.known {
			e.symbols = []testSym{{"f", e.textVaddr(), uint64(len(e.text)), 2, 1}}
		}
		e.text = append(e.text, asm(t, nops16+nops16)...)
		file := e.build()
		p, err := Look(bytes.NewReader(file), int64(len(file)), testTextOff+ret-e.textVaddr())
		if err != nil || p.Vaddr != ret || (p.Call == nil) != (c.call < 0) || (p.Start == e.textVaddr()) != c.known {
			t.Errorf("%s: got %+v, %v", c.name, p, err)
		} else if c.call >= 0 && (p.Call.Vaddr != e.textVaddr()+uint64(c.call) || p.Lines[0].Vaddr != e.textVaddr()+uint64(c.first) || p.Lines[len(p.Lines)-1].Vaddr != ret+15) {
			t.Errorf("%s: got %+v at %#x in %+v", c.name, p.Call, p.Call.Vaddr-e.textVaddr(), p.Lines)
		}
	}
}

// An address outside code, or a file that is not for vfix, is reported; the build ID is returned nevertheless.
func TestLookElsewhere(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "tests", "build", "fixtures", "static-4k"))
	if err != nil {
		t.Skipf("make fixtures has not been run: %v", err)
	}
	for name, c := range map[string]struct {
		b      []byte
		offset uint64
		says   string
	}{
		"text":    {[]byte("text"), 0, "not an ELF file"},
		"start":   {b, 0, "no code"},
		"far off": {b, 1 << 60, "no code"},
		"empty":   {nil, 5, "not an ELF file"},
	} {
		p, err := Look(bytes.NewReader(c.b), int64(len(c.b)), c.offset)
		if err != nil || !strings.Contains(p.Skipped.String(), c.says) || p.Call != nil {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
		if got := p.BuildID; (got != "") != (len(c.b) > 100) {
			t.Errorf("%s: got build ID %q", name, got)
		}
	}
}

// Look ends for any file, without a panic.
func FuzzLook(f *testing.F) {
	if b, err := os.ReadFile(filepath.Join("..", "..", "tests", "build", "fixtures", "static-4k-noshdr")); err == nil {
		f.Add(b, uint64(0x1010))
	}
	f.Add([]byte("\x7fELF\x02\x01\x01"), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, offset uint64) {
		p, err := Look(bytes.NewReader(b), int64(len(b)), offset)
		if err != nil || p == nil {
			t.Fatalf("got %v, %v", p, err)
		}
	})
}
