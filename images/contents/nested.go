// Programs inside other files. The members of zip archives (a jar, a wheel, a zipapp) are examined: a JVM or Python
// loads libraries from them at run time. vfix does not patch them, but reports them. Files with other packed code are
// reported as not examined, so the verdict is incomplete. Tar archives and packages are skipped: nothing runs from them
// before they are unpacked.

package contents

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/rewriter/find"
)

const (
	// maxUnpacked is the total unpacked size of the programs of one archive, in bytes.
	maxUnpacked = 2 << 30
	// maxNested is the depth of archives in archives: an application server has a jar in a war in an ear.
	maxNested = 3
	// lookBack is how much of a script's end is searched for binary data, in bytes.
	lookBack = 64 << 10
)

// Marks. Sources: System V gABI, chapter 4; APPNOTE.TXT of PKWARE, 4.3.7; linux/squashfs_fs.h.
const (
	elfMagic    = "\x7fELF"
	zipMagic    = "PK\x03\x04"
	scriptMagic = "#!"
	squashMagic = "hsqs"
)

// dataNames end the names of members of zip archives that are no programs, also if they cannot be read.
var dataNames = []string{
	".class", ".java", ".properties", ".xml", ".xsd", ".html", ".css", ".js", ".json", ".txt", ".md", ".mf", ".sf", ".rsa",
	".py", ".pyc", ".pyi", ".pyx", ".c", ".h", ".png", ".gif", ".jpg", ".svg", ".ttf",
}

// isCandidate reports whether to examine a file that begins with head: an ELF file, or one that may have such in it.
func isCandidate(head []byte) bool {
	begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	return slices.ContainsFunc([]string{elfMagic, zipMagic, scriptMagic, squashMagic}, begins)
}

// unread returns the result for a file that was not examined.
func unread(format string, a ...any) *elfInfo {
	return &elfInfo{passed: fmt.Sprintf(format, a...), unread: true}
}

// examinePacked examines the programs in a file that begins with head and is not an ELF file; nil means that it has
// none.
func (s *Session) examinePacked(r io.ReaderAt, size int64, head []byte) (*elfInfo, error) {
	begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case begins(squashMagic):
		return unread("a squashfs file system in a file, not examined"), nil
	case begins(elfMagic):
		return nil, nil
	case begins(scriptMagic):
		tail := make([]byte, min(size, lookBack))
		if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && err != io.EOF {
			return nil, err
		}
		if bytes.IndexByte(tail, 0) < 0 {
			return nil, nil
		}
	}
	archive, err := zip.NewReader(r, size)
	switch {
	case err == nil:
		return s.examineZip(archive), nil
	case begins(scriptMagic): // gzexe, makeself
		return unread("a script with binary data after its text, not examined"), nil
	}
	return unread("a damaged zip archive (%v), not examined", err), nil
}

// zipLook is the examination of an archive's members.
type zipLook struct {
	s *Session
	*elfInfo
	unpacked uint64 // bytes
}

// examineZip examines the members of a zip archive; nil means that it has no 64-bit x86-64 ELF file. Only the first of
// those that are not examined is reported.
func (s *Session) examineZip(archive *zip.Reader) *elfInfo {
	z := &zipLook{s: s, elfInfo: &elfInfo{}}
	z.archive(archive, "", 1)
	if z.members == 0 && z.passed == "" {
		return nil
	}
	return z.elfInfo
}

// archive examines an archive; name is what its members are called after, "" for the outermost one.
func (z *zipLook) archive(archive *zip.Reader, name string, depth int) {
	var h holder
	defer h.Close()
	for _, f := range archive.File {
		member := strings.TrimPrefix(name+"!"+f.Name, "!")
		if err := z.member(&h, f, member, depth); err != nil && z.passed == "" {
			z.passed, z.unread = fmt.Sprintf("%s: %v, not examined", member, err), true
		}
	}
}

// member examines a member of an archive. The error is why it was not examined.
func (z *zipLook) member(h *holder, f *zip.File, name string, depth int) error {
	const encrypted = 1 // general purpose bit flag (APPNOTE.TXT, 4.4.4)
	size := f.UncompressedSize64
	switch {
	case size < elfHead, slices.Contains(dataNames, strings.ToLower(path.Ext(f.Name))):
		return nil
	case f.Flags&encrypted != 0:
		return errors.New("encrypted")
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	var head [elfHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	isZip := bytes.HasPrefix(head[:], []byte(zipMagic))
	switch {
	case isZip && depth == maxNested:
		return errors.New("an archive in archives")
	case !isZip && !isELF(head[:]):
		return nil
	case size > maxUnpacked-z.unpacked:
		return fmt.Errorf("too large: %d bytes", size)
	}
	z.unpacked += size
	held, err := h.hold(io.MultiReader(bytes.NewReader(head[:]), r), int64(size))
	if err != nil {
		return err
	}
	// The end shows whether the member has the declared length and checksum.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	if isZip {
		inner, err := zip.NewReader(held, int64(size))
		if err == nil {
			z.archive(inner, name, depth+1)
		}
		return err
	}
	info, err := z.s.examineAt(&Entry{Header: tar.Header{Name: name, Size: int64(size)}}, held, head[:])
	if err != nil || info == nil {
		return err
	}
	z.members++
	z.execBytes += info.execBytes
	if info.passed != "" {
		return errors.New(info.passed)
	}
	if info.report == nil {
		return nil
	}
	if n := info.report.Count(find.Live); n > 0 {
		z.packed = append(z.packed, Packed{Member: name, Sites: n})
	}
	if n := info.report.Count(find.Unknown); n > 0 {
		return fmt.Errorf("%s to the vsyscall page that cannot be judged", plural(n, "reference"))
	}
	return nil
}
