// The command line of a crashed process, from its stack: NT_PRPSINFO has its first 80 bytes, with a space where an argument
// ends (fs/binfmt_elf.c, fill_psinfo). The arguments are behind the 16 random bytes that the auxiliary vector names, each with a zero at its end.

package diagnose

import (
	"bytes"
	"strings"
)

const (
	atRandom = 25
	// maxArgs is how much of the stack is looked at for the arguments, in bytes: before them are the name of the platform
	// and a gap of random length, up to 8191 (arch/x86/kernel/process.c, arch_align_stack).
	maxArgs = 8192 + 4096
)

// arguments returns the command line, nil if the stack does not hold it or NT_PRPSINFO does not have all of it.
func (c *core) arguments(f *facts) []string {
	random, ok := f.aux(atRandom)
	if !ok || f.args == "" || len(f.args) >= psPsargsLen-1 {
		return nil
	}
	b := make([]byte, maxArgs)
	n, err := c.mem(b, random)
	if err != nil {
		return nil
	}
	at := bytes.Index(bytes.ReplaceAll(b[:n], []byte{0}, []byte{' '}), []byte(f.args))
	if at < 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b[at:at+len(f.args)]), "\x00"), "\x00")
}
