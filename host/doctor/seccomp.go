// The cost that a seccomp filter as long as those of container engines adds to a clock read that enters the kernel.

package doctor

import (
	"encoding/binary"

	"golang.org/x/net/bpf"
)

const (
	// rules is how many system calls the filter compares with: docker's default profile allows about as many. It does
	// not need the same numbers: the clock's system calls are behind all of them, as the worst case.
	rules = 350
	// unusedNr is behind the numbers of all system calls of x86-64.
	unusedNr = 4096
	retAllow = 0x7fff0000 // SECCOMP_RET_ALLOW (uapi/linux/seccomp.h)
)

// longFilter returns a filter that compares the number of a system call with many others and then allows it.
func longFilter() ([]byte, error) {
	program := []bpf.Instruction{bpf.LoadAbsolute{Off: 0, Size: 4}} // nr of struct seccomp_data
	for i := range uint32(rules) {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unusedNr + i})
	}
	raw, err := bpf.Assemble(append(program, bpf.RetConstant{Val: retAllow}))
	if err != nil {
		return nil, err
	}
	return binary.Append(nil, binary.LittleEndian, raw) // struct sock_filter, uapi/linux/filter.h
}

// Kernels from 5.11 on remember which system calls a filter always allows (kernel/seccomp.c, SECCOMP_ARCH_NATIVE).
func checkSeccomp(m *machine, c *Check, _ *Report) error {
	const subject = "syscall:time"
	filter, err := longFilter()
	if err != nil {
		return err
	}
	t, err := m.times(nil, subject)
	if err != nil {
		return err
	}
	bare := t.Quiet(subject)
	if t, err = m.times(filter, subject); err != nil {
		return err
	}
	filtered := t.Quiet(subject)
	c.figure("syscall_time", bare, "ns")
	c.figure("filtered_time", filtered, "ns")
	c.found(OK, "a system call: %s, under a container's filter: %s", nanoseconds(bare), nanoseconds(filtered))
	const doubled = 2
	if bare > 0 && filtered >= doubled*bare {
		c.Verdict, c.Do = Warn, "vfix rebuild IMAGE avoids the system calls of the page; a kernel from 5.11 on makes filters cheap"
	}
	c.detail("the filter has %d rules, like docker's default profile", rules)
	return nil
}
