// The notes of a core file. Sources: the kernel's fs/binfmt_elf.c and include/uapi/linux/elf.h for the types;
// include/linux/elfcore.h for the structures, with their x86-64 offsets below.

package diagnose

import (
	"bytes"

	"vfix.dev/vfix/internal/binread"
)

const (
	ntPrstatus = 1
	ntPrpsinfo = 3
	ntAuxv     = 6
	ntSiginfo  = 0x53494749 // "SIGI"
	ntFile     = 0x46494c45 // "FILE"

	noteHead = 12
	// maxNotes is how many notes are read: a thread has about five.
	maxNotes = 1 << 20
	// maxFileNote is the longest NT_FILE: CORE_FILE_NOTE_SIZE_MAX of the kernel's fs/coredump.c, 16 MiB. maxAuxv
	// is longer than any auxiliary vector.
	maxFileNote = 16 << 20
	maxAuxv     = 4096

	// elf_prstatus: pr_cursig, pr_pid, pr_reg; in pr_reg (user_regs_struct) rip and rsp.
	prstatusSize = 336
	prCursig     = 12
	prPid        = 32
	prReg        = 112
	regRIP       = prReg + 16*8
	regRSP       = prReg + 19*8
	// elf_prpsinfo: pr_pid, pr_fname, pr_psargs.
	prpsinfoSize = 136
	psPid        = 24
	psFname      = 40
	psFnameLen   = 16
	psPsargs     = 56
	psPsargsLen  = 80
	// siginfo_t: si_signo, si_code, si_addr.
	siginfoMin = 24
	siCode     = 8
	siAddr     = 16
)

// facts are the notes' facts about the crash.
type facts struct {
	thread bool // a thread was found; otherwise the other fields mean nothing
	tid    int
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
	filesErr   error // of a damaged NT_FILE
}

type mapping struct {
	start, end, offset uint64 // offset in bytes into the file
	path               string
}

// readNotes reads the notes. The first thread in the file is the one that crashed: the kernel writes it first
// (fs/binfmt_elf.c, fill_note_info), and so do gdb's gcore and breakpad.
func (c *core) readNotes() (*facts, error) {
	f := &facts{}
	count := 0
	for _, s := range c.notes {
		for at := uint64(0); s.filesz-at >= noteHead && at < s.filesz; {
			if count++; count > maxNotes {
				return nil, damaged("more than %d notes", maxNotes)
			}
			var h [noteHead]byte
			if err := binread.Full(c.r, h[:], s.off+at, "a note", damaged); err != nil {
				if f.thread { // the known facts are sufficient
					f.filesErr = err
					return f, nil
				}
				return nil, err
			}
			namesz, descsz, typ := uint64(le.Uint32(h[:])), uint64(le.Uint32(h[4:])), le.Uint32(h[8:])
			desc := at + noteHead + up4(namesz)
			if desc > s.filesz || descsz > s.filesz-desc {
				return nil, damaged("a note of %d bytes at offset %#x ends beyond its segment", descsz, s.off+at)
			}
			if err := f.note(c, typ, s.off+desc, descsz); err != nil {
				return nil, err
			}
			at = desc + up4(descsz)
		}
	}
	if !f.thread {
		return nil, damaged("no NT_PRSTATUS: it has no registers")
	}
	return f, nil
}

func up4(n uint64) uint64 { return (n + 3) &^ 3 }

// note reads one note; later ones of a type are of other threads.
func (f *facts) note(c *core, typ uint32, off, size uint64) error {
	read := func(most uint64, what string) ([]byte, error) {
		b := make([]byte, min(size, most))
		return b, binread.Full(c.r, b, off, what, damaged)
	}
	switch {
	case typ == ntPrstatus && !f.thread:
		if size < prstatusSize {
			return damaged("NT_PRSTATUS of %d bytes, want %d", size, prstatusSize)
		}
		b, err := read(prstatusSize, "NT_PRSTATUS")
		if err != nil {
			return err
		}
		f.thread, f.signal, f.tid = true, int(int16(le.Uint16(b[prCursig:]))), int(int32(le.Uint32(b[prPid:])))
		f.rip, f.rsp = le.Uint64(b[regRIP:]), le.Uint64(b[regRSP:])
	case typ == ntPrpsinfo && f.name == "" && size >= prpsinfoSize:
		b, err := read(prpsinfoSize, "NT_PRPSINFO")
		if err != nil {
			return err
		}
		f.pid = int(int32(le.Uint32(b[psPid:])))
		f.name = binread.CString(b[psFname : psFname+psFnameLen])
		f.args = binread.CString(b[psPsargs : psPsargs+psPsargsLen])
	case typ == ntSiginfo && !f.siginfo && size >= siginfoMin:
		b, err := read(siginfoMin, "NT_SIGINFO")
		if err != nil {
			return err
		}
		f.siginfo, f.code, f.addr = true, int(int32(le.Uint32(b[siCode:]))), le.Uint64(b[siAddr:])
		if signo := int(int32(le.Uint32(b))); f.signal == 0 {
			f.signal = signo
		}
	case typ == ntAuxv && f.auxv == nil:
		b, err := read(maxAuxv, "NT_AUXV")
		if err != nil {
			return err
		}
		f.auxv = b
	case typ == ntFile && f.mappings == nil && f.filesErr == nil:
		if size > maxFileNote {
			f.filesErr = damaged("NT_FILE of %d bytes, at most %d are read", size, maxFileNote)
			return nil
		}
		b, err := read(maxFileNote, "NT_FILE")
		if err == nil {
			f.mappings, err = parseFiles(b)
		}
		f.filesErr = err
	}
	return nil
}

// parseFiles reads an NT_FILE: count and page size, then start, end and offset in pages of
// each, then the names. Source: fs/binfmt_elf.c, fill_files_note.
func parseFiles(b []byte) ([]mapping, error) {
	const head, entry = 16, 24
	if len(b) < head {
		return nil, damaged("NT_FILE of %d bytes, want %d at least", len(b), head)
	}
	count, page := le.Uint64(b), le.Uint64(b[8:])
	if count > uint64(len(b)-head)/entry {
		return nil, damaged("NT_FILE of %d bytes for %d files", len(b), count)
	}
	names := b[head+entry*count:]
	all := make([]mapping, 0, count)
	for e := b[head : head+entry*count]; len(e) > 0; e = e[entry:] {
		end := bytes.IndexByte(names, 0)
		if end < 0 {
			return nil, damaged("NT_FILE: %d files and only %d names", count, len(all))
		}
		all = append(all, mapping{le.Uint64(e), le.Uint64(e[8:]), le.Uint64(e[16:]) * page, string(names[:end])})
		names = names[end+1:]
	}
	return all, nil
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
