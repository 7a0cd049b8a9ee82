// Core files: the memory, and the notes. Nothing in the file is trusted: what is read is bounded by the file, and nothing
// is allocated by a claimed size. Sources: the kernel's fs/binfmt_elf.c (elf_core_dump, fill_note_info) and
// include/uapi/linux/elf.h for the types; include/linux/elfcore.h for the structures, with their x86-64 offsets below.

package diagnose

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/textutil"
)

const (
	ntPrstatus = 1
	ntPrpsinfo = 3
	ntAuxv     = 6
	ntSiginfo  = 0x53494749 // "SIGI"
	ntFile     = 0x46494c45 // "FILE"

	noteHead = 12
	// maxNotes is how much of the notes is read, in bytes: those of the first thread, with an NT_FILE of at most 16 MiB
	// (fs/coredump.c, CORE_FILE_NOTE_SIZE_MAX).
	maxNotes = 18 << 20

	// elf_prstatus: pr_cursig, pr_reg; in pr_reg (user_regs_struct) rip and rsp.
	prstatusSize = 336
	prCursig     = 12
	prReg        = 112
	regRIP       = prReg + 16*8
	regRSP       = prReg + 19*8
	// elf_prpsinfo: pr_pid, pr_fname, pr_psargs.
	prpsinfoSize = 136
	psPid        = 24
	psFname      = 40
	psPsargs     = 56
	// siginfo_t: si_signo, si_code, si_addr.
	siginfoMin = 24
	siCode     = 8
	siAddr     = 16
)

var le = binary.LittleEndian

// damaged returns the error of a core that contradicts itself or ends too early.
func damaged(format string, a ...any) error {
	return hinterr.With(hinterr.Damaged(format, a...), "write a complete core: check 'ulimit -c', the disk, and ProcessSizeMax= of systemd-coredump")
}

// refused returns the error of an undamaged input that vfix does not read.
func refused(text, hint string) error { return hinterr.With(errors.New(text), "%s", hint) }

// core is the memory of a process in its core file.
type core struct{ *elf.File }

// openCore reads the headers of a core file; name is for hints.
func openCore(name string, r io.ReaderAt) (*core, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, damaged("its ELF headers: %v", err)
	}
	if f.Type != elf.ET_CORE || f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 {
		return nil, refused(fmt.Sprintf("an ELF file that is not the core of a 64-bit x86-64 program: it has %v, %v, %v", f.Type, f.Class, f.Machine),
			"'gdb PROGRAM CORE' reads other cores; 'vfix scan "+textutil.QuotePath(name)+"' examines programs and libraries")
	}
	return &core{f}, nil
}

// segmentAt returns the PT_LOAD that covers vaddr, nil for none.
func (c *core) segmentAt(vaddr uint64) *elf.Prog {
	for _, p := range c.Progs {
		if p.Type == elf.PT_LOAD && vaddr >= p.Vaddr && vaddr-p.Vaddr < p.Memsz {
			return p
		}
	}
	return nil
}

// mem fills b with the memory at vaddr that is in the core, and returns the number of bytes. It returns an error
// for memory that is missing because the file is truncated.
func (c *core) mem(b []byte, vaddr uint64) (int, error) {
	p := c.segmentAt(vaddr)
	if p == nil || vaddr-p.Vaddr >= p.Filesz {
		return 0, nil
	}
	n, err := p.ReadAt(b[:min(uint64(len(b)), p.Filesz-(vaddr-p.Vaddr))], int64(vaddr-p.Vaddr))
	if err != nil && n < len(b) {
		return n, damaged("the memory at %#x: %v", vaddr, err)
	}
	return n, nil
}

// cString returns b up to its first NUL, or all of it.
func cString(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}

// text reads the NUL-terminated text at vaddr, up to most bytes; "" if the core does not have it.
func (c *core) text(vaddr uint64, most int) string {
	b := make([]byte, most)
	n, err := c.mem(b, vaddr)
	if err != nil {
		return ""
	}
	return cString(b[:n])
}

// facts are the notes' facts about the crash.
type facts struct {
	thread bool // a thread was found; otherwise the other fields mean nothing
	signal int
	rip    uint64
	rsp    uint64
	// siginfo reports that code and addr are known.
	siginfo    bool
	code       int
	addr       uint64
	pid        int
	name, args string
	mappings   []mapping
	auxv       []byte
}

type mapping struct {
	start, end, offset uint64 // offset in bytes into the file
	path               string
}

// readNotes reads the notes. The first thread in the file is the one that crashed: the kernel writes it first, and so
// do gdb's gcore and breakpad.
func (c *core) readNotes() (*facts, error) {
	f, left := &facts{}, int64(maxNotes) // of all segments, which may overlap
	for _, p := range c.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(p.Open(), left))
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		left -= int64(len(b))
		for len(b) >= noteHead {
			namesz, descsz := up4(uint64(le.Uint32(b))), uint64(le.Uint32(b[4:]))
			if namesz+up4(descsz)+noteHead > uint64(len(b)) { // truncated
				break
			}
			f.note(le.Uint32(b[8:]), b[noteHead+namesz:][:descsz])
			b = b[noteHead+namesz+up4(descsz):]
		}
	}
	if !f.thread {
		return nil, damaged("no whole NT_PRSTATUS: it has no registers")
	}
	return f, nil
}

func up4(n uint64) uint64 { return (n + 3) &^ 3 }

// note takes one note; later ones of a type are of other threads.
func (f *facts) note(typ uint32, b []byte) {
	switch {
	case typ == ntPrstatus && !f.thread && len(b) >= prstatusSize:
		f.thread, f.signal = true, int(int16(le.Uint16(b[prCursig:])))
		f.rip, f.rsp = le.Uint64(b[regRIP:]), le.Uint64(b[regRSP:])
	case typ == ntPrpsinfo && f.name == "" && len(b) >= prpsinfoSize:
		f.pid = int(int32(le.Uint32(b[psPid:])))
		f.name, f.args = cString(b[psFname:psPsargs]), cString(b[psPsargs:])
	case typ == ntSiginfo && !f.siginfo && len(b) >= siginfoMin:
		f.siginfo, f.code, f.addr = true, int(int32(le.Uint32(b[siCode:]))), le.Uint64(b[siAddr:])
	case typ == ntAuxv && f.auxv == nil:
		f.auxv = b
	case typ == ntFile && f.mappings == nil:
		f.mappings = parseFiles(b)
	}
}

// parseFiles reads an NT_FILE: count and page size, then start, end and offset in pages of
// each, then the names; nil if it contradicts itself. Source: fs/binfmt_elf.c, fill_files_note.
func parseFiles(b []byte) (all []mapping) {
	const head, entry = 16, 24
	if len(b) < head || le.Uint64(b) > uint64(len(b)-head)/entry {
		return nil
	}
	count, page := le.Uint64(b), le.Uint64(b[8:])
	names := bytes.Split(b[head+entry*count:], []byte{0})
	if uint64(len(names)) < count {
		return nil
	}
	for i, e := 0, b[head:head+entry*count]; len(e) > 0; i, e = i+1, e[entry:] {
		all = append(all, mapping{le.Uint64(e), le.Uint64(e[8:]), le.Uint64(e[16:]) * page, string(names[i])})
	}
	return all
}

// atExecfn is the entry of the auxiliary vector with the path of the program (linux/auxvec.h).
const atExecfn = 31

// aux returns an entry of the auxiliary vector.
func (f *facts) aux(tag uint64) (uint64, bool) {
	for b := f.auxv; len(b) >= 16; b = b[16:] {
		if le.Uint64(b) == tag {
			return le.Uint64(b[8:]), true
		}
	}
	return 0, false
}
