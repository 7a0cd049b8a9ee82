// A seccomp filter as a container engine would set it: docker's rules, out of docker's own
// library, as a list of comparisons, one system call after the other, as libseccomp writes it.
// Calls that it would forbid are nevertheless allowed: only the cost of the filter matters.

package probe

import (
	_ "embed" // for syscalls.txt
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
)

// Offsets into struct seccomp_data (uapi/linux/seccomp.h) and values of it.
const (
	dataNr    = 0
	dataArch  = 4
	dataArgs  = 16
	argSize   = 8
	auditX64  = 0xc000003e // AUDIT_ARCH_X86_64
	x32Bit    = 0x40000000 // __X32_SYSCALL_BIT
	retAllow  = 0x7fff0000
	maxArgs   = 6
	maxLength = 4096 // BPF_MAXINSNS
)

// defaultCaps are the capabilities of a docker container (moby, oci/caps/defaults.go).
var defaultCaps = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

var clockCalls = []string{"clock_gettime", "gettimeofday", "time"}

// Filter returns the instructions of a filter for a profile as docker takes it (JSON); nil is
// docker's default profile. forbidden are those system calls for reading a clock that no rule
// of it allows.
func Filter(profile []byte) (filter []byte, forbidden []string, err error) {
	spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: defaultCaps}}}
	var rules *specs.LinuxSeccomp
	if profile == nil {
		rules, err = seccomp.GetDefaultProfile(spec)
	} else {
		rules, err = seccomp.LoadProfile(string(profile), spec)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("seccomp profile: %w", err)
	}
	if rules == nil {
		return nil, nil, fmt.Errorf("seccomp profile: it has no rules")
	}
	program, err := compile(rules)
	if err != nil {
		return nil, nil, fmt.Errorf("seccomp profile: %w", err)
	}
	filter, err = assemble(program)
	return filter, forbiddenClocks(rules), err
}

func forbiddenClocks(rules *specs.LinuxSeccomp) (names []string) {
	if rules.DefaultAction == specs.ActAllow {
		return nil
	}
	for _, clock := range clockCalls {
		if !slices.ContainsFunc(rules.Syscalls, func(s specs.LinuxSyscall) bool {
			return s.Action == specs.ActAllow && slices.Contains(s.Names, clock)
		}) {
			names = append(names, clock)
		}
	}
	return names
}

// compile writes a comparison for each system call that is always allowed, in groups that
// share the return behind them, and then a block for each rule that looks at arguments. This is the x86-64
// half of libseccomp's output; no 64-bit call passes through the half for i386.
func compile(rules *specs.LinuxSeccomp) ([]bpf.Instruction, error) {
	allow := bpf.RetConstant{Val: retAllow}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: dataArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditX64, SkipTrue: 1},
		allow,
		bpf.LoadAbsolute{Off: dataNr, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1},
		allow,
	}
	type rule struct {
		number uint32
		args   []specs.LinuxSeccompArg
	}
	var all []rule
	for _, s := range rules.Syscalls {
		if i := slices.IndexFunc(s.Args, func(a specs.LinuxSeccompArg) bool { return a.Index >= maxArgs }); i >= 0 {
			return nil, fmt.Errorf("argument %d of %s: system calls have %d", s.Args[i].Index, strings.Join(s.Names, ", "), maxArgs)
		}
		for _, name := range s.Names {
			if n, ok := syscallNumbers()[name]; ok {
				all = append(all, rule{n, s.Args})
			}
		}
	}
	// libseccomp sorts them by number, and puts those with arguments to compare last.
	slices.SortStableFunc(all, func(a, b rule) int {
		if (len(a.args) > 0) != (len(b.args) > 0) {
			return len(a.args) - len(b.args)
		}
		return int(a.number) - int(b.number)
	})
	plain := 0
	for plain < len(all) && len(all[plain].args) == 0 {
		plain++
	}
	const group = 128 // system calls: a jump reaches 255 instructions
	for numbers := range slices.Chunk(all[:plain], group) {
		for i, r := range numbers {
			program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: r.number, SkipTrue: uint8(len(numbers) - i)})
		}
		program = append(program, bpf.Jump{Skip: 1}, allow)
	}
	for _, r := range all[plain:] {
		block := append(compareArgs(r.args), allow)
		// A comparison that failed lands there with an argument in the register.
		block = append(block, bpf.LoadAbsolute{Off: dataNr, Size: 4})
		if len(block) > math.MaxUint8 {
			return nil, fmt.Errorf("a rule with %d arguments is too long", len(r.args))
		}
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: r.number, SkipFalse: uint8(len(block))})
		program = append(program, block...)
	}
	return append(program, allow), nil
}

// compareArgs compares each argument, high half and low half; if one is not as the rule
// requires, it jumps behind the rule's return.
func compareArgs(args []specs.LinuxSeccompArg) (b []bpf.Instruction) {
	for _, a := range args {
		offset := uint32(dataArgs + a.Index*argSize)
		b = append(b, bpf.LoadAbsolute{Off: offset + 4, Size: 4})
		b = append(b, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(a.Value >> 32)})
		b = append(b, bpf.LoadAbsolute{Off: offset, Size: 4})
		if a.Op == specs.OpMaskedEqual {
			b = append(b, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: uint32(a.Value)})
		}
		b = append(b, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(a.Value)})
	}
	for i := range b {
		if j, ok := b[i].(bpf.JumpIf); ok {
			j.SkipFalse = uint8(len(b) - i) // to behind the return
			b[i] = j
		}
	}
	return b
}

func assemble(program []bpf.Instruction) ([]byte, error) {
	if len(program) > maxLength {
		return nil, fmt.Errorf("seccomp filter: %d instructions, the kernel accepts %d", len(program), maxLength)
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("seccomp filter: %w", err)
	}
	out := make([]byte, 0, len(raw)*InstructionSize)
	for _, i := range raw {
		out = binary.LittleEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.LittleEndian.AppendUint32(out, i.K)
	}
	return out, nil
}

// syscallTable has the number and the name of each system call of x86-64, as arch/x86/entry/syscalls/syscall_64.tbl of
// the kernel does.
//
//go:embed syscalls.txt
var syscallTable string

// syscallNumbers are the numbers of system calls by their names. They are read when they are first needed.
var syscallNumbers = sync.OnceValue(func() map[string]uint32 {
	all := map[string]uint32{}
	for line := range strings.Lines(syscallTable) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			panic(err) // of a table that is a part of vfix
		}
		all[name] = uint32(n)
	}
	return all
})
