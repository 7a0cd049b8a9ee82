// Whether the kernel runs 32-bit programs, and those that rely on the addresses that they get.

package doctor

import (
	"errors"
	"strconv"
	"syscall"
)

// i386Program is a whole 32-bit program: exit(0) by int $0x80. Source: System V gABI, chapters 4 and 5.
var i386Program = []byte{
	0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, // ELFCLASS32, little endian
	2, 0, 3, 0, 1, 0, 0, 0, // ET_EXEC, EM_386
	0x54, 0x80, 0x04, 0x08, 52, 0, 0, 0, 0, 0, 0, 0, // e_entry 0x8048054, e_phoff
	0, 0, 0, 0, 52, 0, 32, 0, 1, 0, 40, 0, 0, 0, 0, 0, // one program header
	1, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x80, 0x04, 0x08, 0x00, 0x80, 0x04, 0x08, // PT_LOAD at 0x8048000
	93, 0, 0, 0, 93, 0, 0, 0, 5, 0, 0, 0, 0x00, 0x10, 0, 0, // the whole file, R-X
	0x31, 0xdb, // xor %ebx, %ebx
	0xb8, 1, 0, 0, 0, // mov $SYS_exit, %eax
	0xcd, 0x80, // int $0x80
}

func checkIA32(x *examination, c *Check) {
	o, err := x.execute(x.ctx, i386Program)
	option := bootOption(x.line("/proc/cmdline"), "ia32_emulation")
	c.fact("boot_option", option)
	switch {
	case err == nil && o.OK():
		c.fact("run", o.String())
		c.found(OK, "a 32-bit program runs")
		return
	case err == nil:
		c.fact("run", o.String())
		c.found(Fail, "a 32-bit program ends with %s", o)
	case errors.Is(err, syscall.ENOEXEC):
		c.fact("run", "exec format error")
		c.found(Fail, "a 32-bit program does not start: exec format error")
	default:
		must(err)
	}
	c.Means = "32-bit images (linux/386) and 32-bit programs in other images do not run; the error is 'exec format error'"
	c.Do = "boot with ia32_emulation=1 (Linux 6.7 and later), or use a kernel with CONFIG_IA32_EMULATION"
	if option != "" {
		c.Do = "remove ia32_emulation=" + option + " from the kernel's command line"
	}
}

// usualBits is the default of CONFIG_ARCH_MMAP_RND_BITS on x86-64, and the most that sanitizers of gcc before
// 14 and clang before 18 leave room for (google/sanitizers#1614).
const usualBits = 28

func checkASLR(x *examination, c *Check) {
	const file = "/proc/sys/vm/mmap_rnd_bits"
	off := x.line("/proc/sys/kernel/randomize_va_space") == "0"
	bits, err := strconv.Atoi(x.line(file))
	if err != nil && !off {
		c.found(Skipped, "%s is not readable", file)
		c.Do = "run 'vfix doctor --check aslr' as root, on a system with /proc"
		return
	}
	c.figure("bits", float64(bits), "bits")
	switch {
	case off:
		c.found(OK, "addresses are not randomized")
	case bits > usualBits:
		c.found(Warn, "addresses have %d random bits; %d are usual", bits, usualBits)
		c.Means = "programs built with the sanitizers of gcc before 14 or clang before 18 (-fsanitize=address, thread, memory) sometimes crash when they start"
		c.Do = "run 'sysctl vm.mmap_rnd_bits=28', or for one program 'setarch -R PROGRAM'"
	default:
		c.found(OK, "addresses have %d random bits", bits)
	}
}
