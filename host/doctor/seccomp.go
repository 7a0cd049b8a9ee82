// The cost that a seccomp filter as long as those of container engines adds to a clock read that enters the kernel.

package doctor

import "encoding/binary"

// rules is how many system calls the filter compares with: docker's default profile allows about as many. It does not
// need the same numbers: the clock's system calls are behind all of them, as the worst case.
const rules = 350

// Parts of a filter (uapi/linux/filter.h, bpf_common.h, seccomp.h).
const (
	loadNr    = 0x20 // BPF_LD | BPF_W | BPF_ABS, at offset 0 of struct seccomp_data
	jumpEqual = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	ret       = 0x06 // BPF_RET | BPF_K
	retAllow  = 0x7fff0000
	// unusedNr is behind the numbers of all system calls of x86-64.
	unusedNr = 4096
)

// longFilter returns a filter that compares the number of a system call with many others and then allows it.
func longFilter() (b []byte) {
	add := func(op uint16, k uint32) {
		b = binary.LittleEndian.AppendUint16(b, op)
		b = append(b, 0, 0) // both jumps are to the next instruction
		b = binary.LittleEndian.AppendUint32(b, k)
	}
	add(loadNr, 0)
	for i := range uint32(rules) {
		add(jumpEqual, unusedNr+i)
	}
	add(ret, retAllow)
	return b
}

func checkSeccomp(m *machine, c *Check, _ *Report) error {
	const subject, turns = "syscall:time", 4
	var bare, filtered []float64
	for range turns { // in turn, so that other load on the machine affects both
		t, err := m.times(nil, subject)
		if err != nil {
			return err
		}
		f, err := m.times(longFilter(), subject)
		if err != nil {
			return err
		}
		bare, filtered = append(bare, t.Quiet(subject)), append(filtered, f.Quiet(subject))
	}
	least := func(v []float64) float64 {
		n := v[0]
		for _, x := range v {
			n = min(n, x)
		}
		return n
	}
	judgeSeccomp(c, least(bare), least(filtered), m.field("/proc/self/status", "Seccomp_filters"))
	return nil
}

// judgeSeccomp judges the time of a system call in nanoseconds, without a filter and under one. Kernels from 5.11 on
// remember which system calls a filter always allows (kernel/seccomp.c, SECCOMP_ARCH_NATIVE).
func judgeSeccomp(c *Check, bare, filtered float64, inherited string) {
	c.figure("syscall_time", bare, "ns")
	c.figure("filtered_time", filtered, "ns")
	const doubled = 2
	if bare > 0 && filtered >= doubled*bare {
		c.found(Warn, "a system call takes %s, and %s under a container's filter", nanoseconds(bare), nanoseconds(filtered))
		c.Do = "vfix rebuild IMAGE avoids the system calls of the page; a kernel from 5.11 on makes filters cheap"
	} else {
		c.found(OK, "a system call takes %s, and %s under a container's filter", nanoseconds(bare), nanoseconds(filtered))
	}
	c.detail("the filter has %d rules, like docker's default profile", rules)
	if inherited != "" && inherited != "0" {
		c.detail("vfix itself runs under %s seccomp filter(s) here, which the first value includes", inherited)
	}
}
