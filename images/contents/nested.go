// Programs inside other files. The members of zip archives (a jar, a wheel, a zipapp) are examined: a JVM or Python
// loads libraries from them at run time. vfix does not patch them, but reports them. Files with other packed code are
// reported as not examined, so the verdict is incomplete. Tar archives and packages are skipped: nothing runs from
// them before they are unpacked.

package contents

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

const (
	// maxMembers is how many members of a zip archive, and of archives in it, are examined.
	maxMembers = 1 << 17
	// maxUnpacked is the total unpacked size of one archive, in bytes.
	maxUnpacked = 2 << 30
	// maxNested is the depth of archives in archives: an application server has a jar in a war in an ear.
	maxNested = 3
	// lookBack is how much of a file's end is searched for the last record of an archive, which a comment follows, in
	// bytes (APPNOTE.TXT, 4.3.16).
	lookBack = 22 + 1<<16 - 1
)

// Marks. Sources: System V gABI, chapter 4; APPNOTE.TXT of PKWARE, 4.3.7 and 4.3.16; linux/squashfs_fs.h.
const (
	elfMagic    = "\x7fELF"
	zipMagic    = "PK\x03\x04"
	zipEnd      = "PK\x05\x06"
	scriptMagic = "#!"
	squashMagic = "hsqs"
)

// zipNames end the names of zip archives. They may begin with anything: their list of files is at the end.
var zipNames = []string{".jar", ".war", ".ear", ".zip", ".whl", ".egg", ".pex", ".pyz"}

// dataNames end the names of members of zip archives that hold no programs, whatever they contain.
var dataNames = []string{
	".class", ".java", ".properties", ".xml", ".xsd", ".html", ".css", ".js", ".json", ".txt", ".md", ".mf", ".sf", ".rsa",
	".py", ".pyc", ".pyi", ".pyx", ".c", ".h", ".png", ".gif", ".jpg", ".svg", ".ttf",
}

// isCandidate reports whether to examine a file that begins with head: an ELF file, or one that may have such in it.
func isCandidate(name string, head []byte) bool {
	begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	isZip := slices.Contains(zipNames, strings.ToLower(path.Ext(name)))
	return isZip || slices.ContainsFunc([]string{elfMagic, zipMagic, scriptMagic, squashMagic}, begins)
}

// unread returns the result for a file that was not examined.
func unread(format string, a ...any) *elfInfo {
	return &elfInfo{passed: fmt.Sprintf(format, a...), unread: true}
}

// examinePacked examines the programs in a file that begins with head and is not an ELF file; nil means that it has
// none.
func examinePacked(name string, r io.ReaderAt, size int64, head []byte) (*elfInfo, error) {
	begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case begins(squashMagic):
		return unread("a squashfs file system in a file, not examined"), nil
	case begins(zipMagic):
		return examineZip(r, size), nil
	}
	tail := make([]byte, min(size, lookBack))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.Contains(tail, []byte(zipEnd)):
		return examineZip(r, size), nil
	case begins(scriptMagic) && bytes.IndexByte(tail, 0) >= 0: // gzexe, makeself
		return unread("a script with binary data after its text, not examined"), nil
	}
	return nil, nil
}

// zipLook is the examination of an archive and those in it.
type zipLook struct {
	members   int
	programs  int // ELF files that were examined
	execBytes int64
	unpacked  int64
	found     []Packed
	why       string // why something was not examined, "" for nothing
}

// examineZip examines the members of a zip archive; nil means that it has no 64-bit x86-64 ELF file.
func examineZip(r io.ReaderAt, size int64) *elfInfo {
	z := &zipLook{}
	z.archive(r, size, "", 1)
	if z.programs == 0 && z.why == "" {
		return nil
	}
	return &elfInfo{execBytes: z.execBytes, members: z.programs, packed: z.found, passed: z.why, unread: z.why != ""}
}

// missed records that a member was not examined; only the first one is reported.
func (z *zipLook) missed(name, format string, a ...any) {
	if z.why == "" {
		z.why = strings.TrimPrefix(name+": ", ": ") + fmt.Sprintf(format, a...) + ", not examined"
	}
}

// archive examines a zip archive of size bytes; name is "" for the outermost one.
func (z *zipLook) archive(r io.ReaderAt, size int64, name string, depth int) {
	if depth > maxNested {
		z.missed(name, "an archive in archives")
		return
	}
	all, err := zip.NewReader(r, size)
	if err != nil {
		z.missed(name, "a damaged zip archive (%v)", err)
		return
	}
	var h holder
	defer h.Close()
	for _, f := range all.File {
		if z.members++; z.members > maxMembers {
			z.missed(name, "more than %d members", maxMembers)
			return
		}
		member := strings.TrimPrefix(name+"!"+f.Name, "!")
		if err := z.member(&h, f, member, depth); err != nil {
			z.missed(member, "cannot be unpacked (%v)", err)
		}
	}
}

func (z *zipLook) member(h *holder, f *zip.File, name string, depth int) error {
	const encrypted = 1 // general purpose bit flag, 4.4.4
	data := slices.Contains(dataNames, strings.ToLower(path.Ext(f.Name))) || strings.HasSuffix(f.Name, "/")
	size := f.UncompressedSize64
	switch {
	case data || size < elfHead:
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
	case !isZip && !isELF(head[:]):
		return nil
	case size > maxUnpacked-uint64(z.unpacked):
		return fmt.Errorf("too large: %d bytes", size)
	}
	z.unpacked += int64(size)
	b, err := h.hold(io.MultiReader(bytes.NewReader(head[:]), r), int64(size))
	if err != nil {
		return err
	}
	// The end shows whether the member has the declared length and checksum.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	if isZip {
		z.archive(b, int64(size), name, depth+1)
		return nil
	}
	return z.program(b, int64(size), name)
}

// program examines an ELF file in an archive.
func (z *zipLook) program(r io.ReaderAt, size int64, name string) error {
	report, err := patch.Scan(r, size)
	switch {
	case err != nil:
		return err
	case report.Skipped.MayCall():
		z.missed(name, "%s", report.Skipped)
		return nil
	case report.Skipped != nil:
		return nil
	}
	z.programs++
	z.execBytes += report.ExecBytes
	if n := report.Count(find.Live); n > 0 {
		z.found = append(z.found, Packed{Member: name, Sites: n})
	}
	if n := report.Count(find.Unknown); n > 0 {
		z.missed(name, "%s to the vsyscall page that cannot be judged", plural(n, "reference"))
	}
	return nil
}
