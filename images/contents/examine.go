// The examination of one file: whether it is a 64-bit x86-64 ELF file, and what the rewriter finds in it.

package contents

import (
	"bytes"
	"io"
	"slices"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/hazards"
	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

const (
	// inMemory is the largest file that each of MaxLayersAtOnce examiners keeps in memory, in bytes; it keeps
	// larger ones in a temporary file.
	inMemory = 2 << 20
	// MaxELF is the largest file examined, in bytes. The largest known files, GPU libraries, are below 3 GiB; call
	// rel32 reaches 2 GiB.
	MaxELF = 4 << 30
	// elfHead is the number of bytes at the start of a file that decide whether to examine it: up to e_machine.
	elfHead = 20
)

// elfInfo is the result for one 64-bit x86-64 ELF file, or for an archive of such.
type elfInfo struct {
	execBytes int64
	members   int               // 0, or the number of such files in an archive, which this is
	packed    []Packed          // the affected ones of these
	passed    string            // why it, or what it has in it, was not examined, "" if it was
	unread    bool              // because it could not be read
	report    *find.Report      // nil if it has neither a reference to the page nor needs a requested fix
	plan      *patch.Plan       // for report
	Content   *io.SectionReader // of a file of an archive, if report is not nil
	hazard    *hazards.Hazard   // nil for none
	// loads are the loader of a program and the names of its libraries, and library reports a file without a loader
	// that programs load.
	loads   []string
	library bool
}

// isELF reports whether head starts an x86-64 program or library, by what the kernel checks: the magic, and e_machine
// 62; relocatable objects (e_type 1) do not run. Source: System V gABI, chapter 4; fs/binfmt_elf.c.
func isELF(head []byte) bool {
	return len(head) >= elfHead && string(head[:4]) == elfMagic && head[18] == 62 && head[19] == 0 && (head[16] != 1 || head[17] != 0)
}

// examiner examines the files of one archive one after the other, and reuses its memory.
type examiner struct {
	S *Session
	// Layer reports that the archive is a layer, whose .wh. names are whiteouts.
	Layer bool
	head  [elfHead]byte
	holder
}

// holder makes files readable at any offset, one after the other, and reuses its memory.
type holder struct {
	buf  []byte
	held blob.Spool // a file that is too large for buf
}

func (h *holder) Close() { h.held.Close() }

// hold makes a file of size bytes readable at any offset, until the next call.
func (h *holder) hold(r io.Reader, size int64) (io.ReaderAt, error) {
	if size > inMemory {
		h.held.Close()
		return h.held.KeepStream(r, size)
	}
	if h.buf == nil {
		h.buf = make([]byte, inMemory)
	}
	b := h.buf[:size]
	_, err := io.ReadFull(r, b)
	return elf.Memory(b), err
}

// content reads the content of a regular file, as far as needed, and sets the result of its examination.
func (x *examiner) content(e *Entry, r io.Reader) error {
	n, err := filecopy.Fill(r, x.head[:])
	if err != nil && err != io.EOF {
		return err
	}
	head := x.head[:n]
	if !isCandidate(head) {
		return nil
	}
	var held io.ReaderAt
	if e.Size <= MaxELF {
		if held, err = x.hold(io.MultiReader(bytes.NewReader(head), r), e.Size); err != nil {
			return err
		}
	}
	e.ELF, err = x.S.examineAt(e, held, head)
	return err
}

// examineAt examines a file that may have call sites and begins with head, and keeps its content if it has references to
// the page; nil means that it is not a 64-bit x86-64 ELF file.
func (s *Session) examineAt(e *Entry, r io.ReaderAt, head []byte) (*elfInfo, error) {
	name, size := e.Name, e.Size
	if size > MaxELF {
		return unread("file of %d bytes, at most %d are examined", size, int64(MaxELF)), nil
	}
	if !isELF(head) {
		return s.examinePacked(r, size, head)
	}
	report, err := patch.Scan(r, size)
	switch {
	case err != nil:
		return nil, err
	case report.Skipped.MayCall():
		return unread("%s", report.Skipped), nil
	case report.Skipped != nil:
		return nil, nil
	}
	info := &elfInfo{execBytes: report.ExecBytes, passed: report.Packed, unread: report.Packed != ""}
	if info.hazard, err = hazards.Find(name, r, size); err != nil {
		return nil, err
	}
	info.load(report.File)
	toFix := report.Redirect != nil && slices.Contains(s.Options.Fixes, report.Redirect.Fix)
	if len(report.Sites) == 0 && !toFix {
		return info, nil
	}
	if e.Disk == nil { // r is readable only during this call
		if info.Content, err = s.spool.KeepStream(io.NewSectionReader(r, 0, size), size); err != nil {
			return nil, err
		}
		report.File.R = info.Content // the plan reads the file again
	}
	info.report = report
	options := s.Options
	options.Dormant = options.Dormant || report.Go && e.losesVDSO()
	info.plan, err = patch.NewPlan(report, options)
	if marks := e.Marks(); err == nil && len(marks) > 0 && !info.plan.Empty() {
		info.plan.Consequences = append(info.plan.Consequences, MarkWarning(marks))
	}
	return info, err
}

// load records what a file loads.
func (i *elfInfo) load(f *find.File) {
	interp := f.Interp()
	if interp != "" && f.Soname() == "" { // glibc's libc.so.6 has a loader and is a library
		i.loads = append([]string{interp}, f.DynStrings(elf.DTNeeded)...)
		return
	}
	i.library = f.Type == elf.TypeDyn && !f.Static()
}
