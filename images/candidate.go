package images

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"vfix.dev/vfix/rewriter"
)

const (
	// smallLimit is the largest file that each job examines in memory of its own, in bytes.
	smallLimit = 4 << 20
	// bigLimit is the largest file that is examined in memory at all: there is one such
	// buffer, and who finds it taken uses a temporary file, as for larger files.
	bigLimit = 16 << 20
	// maxELF is the largest file examined, in bytes. The largest known, GPU libraries, are
	// below 3 GiB; call rel32 reaches no further than 2.
	maxELF = 4 << 30
	// elfHead is how much of a file says whether it is one to examine: up to e_machine.
	elfHead = 20
)

// elfInfo is what is known of one 64-bit x86-64 ELF file.
type elfInfo struct {
	execBytes int64
	passed    string            // why it was not examined, "" where it was
	unread    bool              // because it could not be read
	report    *rewriter.Report  // nil where it has no reference to the page
	content   *io.SectionReader // kept where report is not nil
	plan      *rewriter.Plan    // once made
}

// isELF reports whether the first bytes of a file are those of a 64-bit x86-64 ELF file:
// EI_CLASS 2, EI_DATA 1, e_machine 62. Source: System V gABI, chapter 4.
func isELF(head []byte) bool {
	return len(head) >= elfHead && string(head[:6]) == "\x7fELF\x02\x01" && head[18] == 62 && head[19] == 0
}

// examiner examines the files of one archive, one after the other, in the same memory.
type examiner struct {
	s *session
	// big says that this examiner has the session's big buffer.
	big bool
	// whiteouts says that the archive is a layer, whose .wh. names are whiteouts.
	whiteouts bool
	head      [elfHead]byte
	buf       []byte
	tmp       *os.File
}

func (x *examiner) Close() {
	x.release()
	removeTemp(x.tmp)
}

// release gives the big buffer back.
func (x *examiner) release() {
	if x.big {
		x.big = false
		x.s.big.Unlock()
	}
}

// content reads the content of a regular file and fills in what e knows of it.
func (x *examiner) content(e *entry, h *tarMember, r io.Reader) error {
	if h.sparse && h.Size > maxELF {
		// Reading it would take as long as its size claims, whatever the archive holds.
		e.elf = &elfInfo{passed: fmt.Sprintf("sparse file of %d bytes, at most %d are examined", h.Size, int64(maxELF)), unread: true}
		return nil
	}
	if e.kind == kindFile && x.s.keep != nil && x.s.keep(e.name, h.Size) {
		kept, err := x.s.spool.keepStream(r, h.Size)
		if err != nil {
			return err
		}
		e.kept, r = kept, io.NewSectionReader(kept, 0, h.Size)
	}
	if !x.s.sums {
		info, err := x.examine(r, h.Size)
		e.elf = info
		return err
	}
	hash := sha256.New()
	tee := io.TeeReader(r, hash)
	info, err := x.examine(tee, h.Size)
	if err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, tee, x.buffer(copyBuffer))
	}
	e.elf, e.sum = info, (*[sha256.Size]byte)(hash.Sum(nil))
	return err
}

// buffer returns n bytes of memory that is used again for the next file.
func (x *examiner) buffer(n int64) []byte {
	if int64(cap(x.buf)) < n {
		x.buf = make([]byte, max(n, copyBuffer))
	}
	return x.buf[:n]
}

// examine looks at one file of size bytes; nil says that it is no 64-bit x86-64 ELF file.
// The content of a file with references to the page is kept.
func (x *examiner) examine(r io.Reader, size int64) (*elfInfo, error) {
	n, err := fill(r, x.head[:min(size, elfHead)])
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !isELF(x.head[:n]) {
		return nil, nil
	}
	if size > maxELF {
		return &elfInfo{passed: fmt.Sprintf("file of %d bytes, at most %d are examined", size, int64(maxELF)), unread: true}, nil
	}
	defer x.release()
	content, err := x.hold(r, size)
	if err != nil {
		return nil, err
	}
	return x.s.examineAt(content, size, true)
}

// memory returns size bytes of memory, nil where there are none for so large a file.
func (x *examiner) memory(size int64) []byte {
	if size <= smallLimit {
		return x.buffer(size)
	}
	if size > bigLimit || !x.s.big.TryLock() {
		return nil
	}
	x.big = true
	if x.s.bigBuffer == nil {
		x.s.bigBuffer = make([]byte, bigLimit)
	}
	return x.s.bigBuffer[:size]
}

// hold brings the file whose head has been read where it can be read at any offset. It
// stays there until the next file.
func (x *examiner) hold(r io.Reader, size int64) (io.ReaderAt, error) {
	r = io.MultiReader(bytes.NewReader(x.head[:]), r)
	if b := x.memory(size); b != nil {
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		return bytes.NewReader(b), nil
	}
	if x.tmp == nil {
		f, err := tempFile()
		if err != nil {
			return nil, err
		}
		x.tmp = f
	}
	if err := x.tmp.Truncate(0); err != nil {
		return nil, err
	}
	w := &holeWriter{w: x.tmp}
	if err := w.copy(io.LimitReader(r, size)); err != nil {
		return nil, err
	}
	if w.n != size {
		return nil, io.ErrUnexpectedEOF
	}
	return x.tmp, x.tmp.Truncate(size)
}

// examineAt has the rewriter look at a file. keep says that r will not last: a file with
// references to the page is copied first.
func (s *session) examineAt(r io.ReaderAt, size int64, keep bool) (*elfInfo, error) {
	report, err := rewriter.Scan(r, size)
	if err != nil {
		return nil, err
	}
	switch {
	case report.Damaged:
		return &elfInfo{passed: report.Skipped}, nil
	case report.Skipped != "":
		return nil, nil
	}
	info := &elfInfo{execBytes: report.ExecBytes}
	if len(report.Sites) == 0 {
		return info, nil
	}
	info.content = io.NewSectionReader(r, 0, size)
	if keep {
		if info.content, err = s.spool.keep(r, size); err != nil {
			return nil, err
		}
		// A report reads its file again when a plan is made: it must know the copy.
		if report, err = rewriter.Scan(info.content, size); err != nil {
			return nil, err
		}
	}
	info.report = report
	return info, nil
}
