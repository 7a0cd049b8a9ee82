// The text of instructions, as objdump writes it.

package x86

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/arch/x86/x86asm"
)

// bareOperand matches a memory operand of which x86asm writes at most the segment.
var bareOperand = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`( |%[fg]s:)(,|$)`) })

var negative = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$-0x[0-9a-f]+`) })

// Text returns the instruction as current objdump writes it, from which x86asm v0.32 differs: no suffix on call,
// jmp, ret and leave, immediates without a sign, addresses without a register, and the targets of displacements
// relative to rip.
func (i *Instr) Text(raw []byte) string {
	if i.Op == 0 {
		return fmt.Sprintf(".byte 0x%02x", raw[0])
	}
	if isEndbr64(raw) {
		return "endbr64"
	}
	t := x86asm.GNUSyntax(i.Inst, i.Addr, nil)
	if _, n := withoutADX(raw); n > 0 {
		t = map[byte]string{0x66: "adcx", 0xf3: "adox"}[raw[0]] + strings.TrimPrefix(t, "adc")
	}
	words := strings.Fields(t)
	for n, w := range words {
		switch w {
		case "callq", "jmpq", "retq", "leaveq", "pushq", "popq":
			if _, mem := i.Mem(); !mem || i.Flow != FlowNext {
				words[n] = strings.TrimSuffix(w, "q")
			}
		}
	}
	t = strings.Join(words, " ")
	t = negative().ReplaceAllStringFunc(t, func(s string) string {
		v, err := strconv.ParseInt(strings.TrimPrefix(s, "$"), 0, 64)
		if err != nil {
			return s
		}
		if i.DataSize == 32 {
			return fmt.Sprintf("$%#x", uint32(v))
		}
		return fmt.Sprintf("$%#x", uint64(v))
	})
	m, ok := i.Mem()
	if !ok {
		return t
	}
	if target, fixed := i.MemVaddr(); fixed && m.Base == x86asm.RIP {
		return t + fmt.Sprintf("  # %#x", target)
	}
	// x86asm omits a displacement of 0 even if the operand has no other part.
	return bareOperand().ReplaceAllString(t, "${1}0x0${2}")
}
