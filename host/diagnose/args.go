// The command line of a crashed process, from its stack: NT_PRPSINFO has the first 80
// bytes, and no longer says where an argument ends. From low to high addresses the kernel
// puts argc, argv, NULL, envp, NULL, the auxiliary vector, 16 random bytes (fs/binfmt_elf.c,
// create_elf_tables).

package diagnose

import (
	"bytes"
)

const (
	atRandom = 25
	// vectors is how much below the random bytes is looked at, in bytes: room for some
	// 8,000 arguments and variables.
	vectors = 64 << 10
	maxArgs = 256
	maxArg  = 4096
)

// arguments returns the command line, nil where the stack does not hold it.
func (c *core) arguments(f *facts) []string {
	random, ok := f.aux(atRandom)
	if !ok || random < vectors || len(f.auxv) < 16 {
		return nil
	}
	s := c.segmentAt(random)
	if s == nil {
		return nil
	}
	b := make([]byte, min(vectors, random-s.vaddr))
	n, err := c.mem(b, random-uint64(len(b)))
	if err != nil || n < len(b) {
		return nil
	}
	i := bytes.LastIndex(b, f.auxv)
	if i < 0 {
		return nil
	}
	argv := argumentPointers(b[i%8 : i])
	if len(argv) == 0 || len(argv) > maxArgs {
		return nil
	}
	args := make([]string, len(argv))
	for n, at := range argv {
		args[n] = c.text(at, maxArg)
	}
	return args
}

// argumentPointers takes argv from the words before the auxiliary vector: back over the end
// of envp, envp, the end of argv, to the word that counts what lies between.
func argumentPointers(b []byte) []uint64 {
	words := len(b) / 8
	word := func(i int) uint64 { return le.Uint64(b[8*i:]) }
	i := words - 1
	if i < 0 || word(i) != 0 {
		return nil
	}
	for i--; i >= 0 && word(i) != 0; i-- { // envp
	}
	end := i // the end of argv
	for i--; i >= 0; i-- {
		if n := end - i - 1; word(i) == uint64(n) {
			argv := make([]uint64, n)
			for k := range argv {
				argv[k] = word(i + 1 + k)
			}
			return argv
		}
	}
	return nil
}
