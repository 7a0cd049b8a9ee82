package x86

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"vfix.dev/vfix/tests/recorded"
)

// TestOpcodes decodes each opcode with some prefixes and operands, and compares all that is known of the instructions
// with what is recorded: effects, text, and the change of a frame.
func TestOpcodes(t *testing.T) {
	prefixes := [][]byte{nil, {0x66}, {0x48}, {0x41}, {0x67}, {0xf3}, {0x64}, {0x0f}, {0x48, 0x0f}, {0xf3, 0x48}, {0x66, 0x0f}, {0xf3, 0x0f},
		{0xf2, 0x0f}, {0x66, 0x0f, 0x38}, {0x0f, 0x38}, {0xc5, 0xf8}, {0xc5, 0xff}, {0xc4, 0xe2, 0xf8}, {0xc4, 0x41, 0x7c}}
	operands := [][]byte{
		{0xc0, 0x08, 0, 0, 0}, {0xec, 0x10, 0, 0, 0}, {0xe5, 0xff, 0xff, 0xff, 0xff}, {0x44, 0x24, 0x08, 0x01, 0}, {0x45, 0xf8, 0x80, 0, 0},
		{0x04, 0x25, 0, 0, 0, 0, 5}, {0x05, 0, 1, 0, 0, 9}, {0x34, 0xcd, 0, 0, 0, 0, 3}, {0xfe, 0x24, 0xc0}, {0x64, 0xac, 0x04}, {0, 0, 0, 0, 0}, {0xf8, 0xfa},
		{0x6c, 0x24, 0x08, 0x03, 0}, {0x65, 0x10, 0x03, 0, 0},
		{0xc4, 0x10, 0, 0, 0}, {0x60, 0x08, 0, 0, 0}, {0x45, 0x08, 0, 0, 0}, {0x45, 0x09, 0, 0, 0},
	}
	var forms [][]byte // each number in ModRM that extends an opcode, with memory and with registers
	for n := range byte(8) {
		forms = append(forms, []byte{n << 3}, []byte{n<<3 | 4, 0x24}, []byte{n<<3 | 0xc0}, []byte{n<<3 | 0xc1}, []byte{n<<3 | 0xc5})
	}
	for _, prefix := range prefixes {
		t.Run(fmt.Sprintf("%x", prefix), func(t *testing.T) {
			all, operands := []string{}, operands
			if len(prefix) == 0 || prefix[len(prefix)-1] == 0x0f {
				operands = slices.Concat(operands, forms)
			}
			for op := range 256 {
				for _, rest := range operands {
					raw := slices.Concat(prefix, []byte{byte(op)}, rest, make([]byte, MaxLen))
					all = append(all, known(raw))
				}
			}
			recorded.Check(t, t.Name(), all)
		})
	}
}

// known lists all that the package says of the instruction at the start of raw, also with less of it.
func known(raw []byte) string {
	var b bytes.Buffer
	i, ok := Decode(raw, 0x401000)
	fmt.Fprintf(&b, "% x %v %d", raw[:MaxLen], ok, Padding(raw))
	if !ok {
		return b.String()
	}
	_, short := Decode(raw[:i.Len-1], 0)
	m, isMem := i.Mem()
	vaddr, fixed := i.MemVaddr()
	r, through := i.Through()
	fmt.Fprint(&b, short, i.Op, i.Len, i.Reads, i.Writes, i.Partial, i.Operands, i.Known, i.Flow, i.Target, i.Calls(), i.IsInt3(), i.HasVector(),
		i.IsConditionalMove(), i.AddressRegs(), m, isMem, vaddr, fixed, r, through, i.Next())
	for n := range 3 {
		r, width, ok := i.ArgGPR(n)
		fmt.Fprint(&b, r, width, ok)
	}
	l := i.Line(raw[:i.Len])
	fmt.Fprint(&b, l.Text, l.To())
	for _, d := range []Depth{{SP: -24, BP: -16, HasSP: true, HasBP: true}, {SP: 0, HasSP: true}, {SP: 8, HasSP: true}, {SP: 1, HasSP: true}, {}} {
		off, taken := d.Address(&i)
		fmt.Fprint(&b, d.Place(&i), d.ReturnsElsewhere(&i), off, taken)
		d.Over(&i)
		fmt.Fprint(&b, d)
	}
	return b.String()
}

// TestListings lists code beside the same code with other bytes at each place: all lines are recorded.
func TestListings(t *testing.T) {
	code := unhex(t, "48c7c0000460ffffd04883c408c3e8000000000f1f4400004889e57405488b0500000000c3")
	for at := range code {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			for _, with := range []string{"90", "e900000000", "488d0500000000", "06"} {
				after := bytes.Clone(code)
				copy(after[at:], unhex(t, with))
				before, now := Listing(code, after, 0x401000)
				Bury(now[len(now)-1:])
				if len(now) < 2 || now[0].Vaddr != 0x401000 || before[0].Vaddr != 0x401000 {
					t.Fatalf("got %+v", now)
				}
				recorded.Check(t, t.Name()+" "+with, before, now)
			}
		})
	}
}
