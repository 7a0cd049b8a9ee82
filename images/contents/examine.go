// The examination of one file: whether it is a 64-bit x86-64 ELF file, and what the rewriter finds in it.

package contents

import (
	"bytes"
	"crypto/sha256"
	"fmt"
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
	// that programs load; not set for the files of layers.
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
	// Whiteouts reports that the archive is a layer, whose .wh. names are whiteouts.
	Whiteouts bool
	// programs makes the examiner record what programs load.
	programs bool
	head     [elfHead]byte
	holder
}

// holder makes files readable at any offset, one after the other, and reuses its memory.
type holder struct {
	buf  []byte
	held blob.Spool // a file that is too large for buf
}

func (h *holder) Close() {
	h.held.Close()
}

// content reads the content of a regular file and sets the fields of e that depend on it.
func (x *examiner) content(e *Entry, h *blob.TarMember, r io.Reader) error {
	if h.Sparse && h.Size > MaxELF {
		// To read a sparse file can take as long as its claimed size, whatever the archive has. Its beginning may
		// show that there is nothing to examine, as for /var/log/lastlog.
		n, err := filecopy.Fill(r, x.head[:elfHead])
		if err != nil && err != io.EOF {
			return err
		}
		if !x.S.Sums && !isCandidate(e.Name, x.head[:n]) {
			return nil
		}
		e.ELF = &elfInfo{passed: fmt.Sprintf("sparse file of %d bytes, at most %d are examined", h.Size, int64(MaxELF)), unread: true}
		return nil
	}
	if !x.S.Sums {
		info, err := x.examine(e.Name, &e.Meta, r, h.Size)
		e.ELF = info
		return err
	}
	hash := sha256.New()
	tee := io.TeeReader(r, hash)
	info, err := x.examine(e.Name, &e.Meta, tee, h.Size)
	if err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, tee, x.buffer(blob.CopyBuffer))
	}
	e.ELF, e.Sum = info, (*[sha256.Size]byte)(hash.Sum(nil))
	return err
}

// buffer returns n bytes of memory, which the next file reuses.
func (h *holder) buffer(n int64) []byte {
	if int64(cap(h.buf)) < n {
		h.buf = make([]byte, max(n, blob.CopyBuffer))
	}
	return h.buf[:n]
}

// examine examines a file of size bytes; nil means that it is not a 64-bit x86-64 ELF file. It keeps the content
// of a file with references to the page.
func (x *examiner) examine(name string, meta *Meta, r io.Reader, size int64) (*elfInfo, error) {
	n, err := filecopy.Fill(r, x.head[:min(size, elfHead)])
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !isCandidate(name, x.head[:n]) {
		return nil, nil
	}
	if size > MaxELF {
		return &elfInfo{passed: fmt.Sprintf("file of %d bytes, at most %d are examined", size, int64(MaxELF)), unread: true}, nil
	}
	content, err := x.hold(io.MultiReader(bytes.NewReader(x.head[:]), r), size)
	if err != nil {
		return nil, err
	}
	return x.S.examineAt(name, content, size, x.head[:n], examining{true, x.programs, meta})
}

// hold makes a file of size bytes readable at any offset, until the next call.
func (h *holder) hold(r io.Reader, size int64) (io.ReaderAt, error) {
	if size <= inMemory {
		b := h.buffer(size)
		_, err := io.ReadFull(r, b)
		return elf.Memory(b), err
	}
	h.Close()
	return h.held.KeepStream(io.LimitReader(r, size), size)
}

// fixes reports whether the file needs a requested fix besides those of call sites.
func (s *Session) fixes(r *find.Report) bool {
	return r.Redirect != nil && slices.Contains(s.Options.Fixes, r.Redirect.Fix)
}

// examining says what an examination records beside the references.
type examining struct {
	// keep copies a file with references to the page: its reader is valid only during the call.
	keep bool
	// programs records what programs load.
	programs bool
	meta     *Meta // of the file
}

// examineAt examines a file that begins with head; nil means that it is not a 64-bit x86-64 ELF file.
func (s *Session) examineAt(name string, r io.ReaderAt, size int64, head []byte, o examining) (*elfInfo, error) {
	if !isELF(head) {
		return examinePacked(name, r, size, head)
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
	info := &elfInfo{execBytes: report.ExecBytes}
	if info.hazard, err = hazards.Find(name, r, size); err != nil {
		return nil, err
	}
	if info.passed, err = elf.PackedBy(r, size); err != nil {
		return nil, err
	}
	info.unread = info.passed != ""
	if o.programs {
		info.load(report.File)
	}
	if len(report.Sites) == 0 && !s.fixes(report) {
		return info, nil
	}
	if o.keep {
		if info.Content, err = s.spool.KeepStream(io.NewSectionReader(r, 0, size), size); err != nil {
			return nil, err
		}
		report.File.R = info.Content // the plan reads the file again
	}
	info.report = report
	options := s.Options
	options.Dormant = options.Dormant || report.Go && o.meta.losesVDSO()
	info.plan, err = patch.NewPlan(report, options)
	return info, err
}

// load records what a file loads.
func (i *elfInfo) load(f *find.File) {
	interp := f.Interp()
	switch {
	case interp != "" && f.Soname() == "":
		i.loads = append([]string{interp}, f.DynStrings(elf.DTNeeded)...)
	default: // glibc's libc.so.6 has a loader and is a library
		i.library = f.Type == elf.TypeDyn && !f.Static()
	}
}
