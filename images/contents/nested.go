// Programs inside other files. Zip archives (a jar, a wheel, a zipapp, also after a program or a script) are
// examined: a JVM or Python loads libraries from them at run time. Files with compressed code, or a file system,
// are reported as not examined, so the verdict is incomplete. Tar archives and packages are skipped: nothing runs
// from them before they are unpacked.

package contents

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/packers"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

const (
	// maxMembers is how many members of a zip archive, and of archives in it, are examined.
	maxMembers = 1 << 17
	// maxUnpacked is the total unpacked size of one archive, in bytes.
	maxUnpacked = 2 << 30
	// maxNested is the depth of archives in archives: an application server has a jar in a war in an ear.
	maxNested = 4
	// lookBack is how much of a file's end is searched for the last record of an archive, which a comment follows, in
	// bytes (APPNOTE.TXT, 4.3.16).
	lookBack = 22 + 1<<16 - 1
)

// Marks. Sources: System V gABI, chapter 4; APPNOTE.TXT of PKWARE, 4.3.7 and 4.3.16; linux/squashfs_fs.h.
const (
	elfMagic    = "\x7fELF"
	zipAnyMagic = "PK" // of each record: a part of a split archive begins with another one
	zipMagic    = "PK\x03\x04"
	zipEnd      = "PK\x05\x06"
	scriptMagic = "#!"
	squashMagic = "hsqs"
)

// zipNames end the names of zip archives. They may begin with anything: their list of files is at the end.
var zipNames = []string{".jar", ".war", ".ear", ".zip", ".whl", ".egg", ".pex", ".pyz"}

// isCandidate reports whether to examine a file that begins with head: an ELF file, or one that may have such in it.
func isCandidate(name string, head []byte) bool {
	begins := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	return slices.ContainsFunc([]string{elfMagic, zipAnyMagic, scriptMagic, squashMagic}, begins) ||
		slices.Contains(zipNames, strings.ToLower(path.Ext(name)))
}

// unread returns the result for a file that was not examined.
func unread(format string, a ...any) *elfInfo {
	return &elfInfo{passed: fmt.Sprintf(format, a...), unread: true}
}

// examineNested examines the programs in a file or after its end; nil means that it has no 64-bit x86-64 ELF file.
func examineNested(r io.ReaderAt, size int64) (*elfInfo, error) {
	z := &zipLook{}
	defer z.close()
	err := z.nested(r, size, "", 1)
	switch {
	case z.calls > 0:
		return unread("a zip archive with programs or libraries that call the vsyscall page, the first of %d is %s: they are not patched", z.calls, z.first), err
	case z.members > 0 && z.why != "":
		return unread("a zip archive: %s", z.why), err
	case z.why != "":
		return unread("%s", z.why), err
	case z.programs > 0:
		return &elfInfo{members: z.programs, execBytes: z.execBytes}, err
	}
	return nil, err
}

// endsInZip reports whether the end of a file is that of a zip archive.
func endsInZip(r io.ReaderAt, size int64) (bool, error) {
	tail := make([]byte, min(size, lookBack))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if !bytes.Contains(tail, []byte(zipEnd)) {
		return false, nil
	}
	failed := &failing{r: r}
	_, err := zip.NewReader(failed, size)
	return err == nil, failed.err // without an error of reading, the bytes have another meaning
}

// hasBinary reports whether a script has data after its text, which it may unpack and run (gzexe, makeself).
func hasBinary(r io.ReaderAt, size int64) (bool, error) {
	b := make([]byte, min(size, blob.CopyBuffer))
	for at := int64(0); at < size; at += int64(len(b)) {
		n, err := r.ReadAt(b[:min(size-at, int64(len(b)))], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if bytes.IndexByte(b[:n], 0) >= 0 {
			return true, nil
		}
	}
	return false, nil
}

// zipLook is the examination of an archive and those in it.
type zipLook struct {
	members, calls int
	programs       int // ELF files that were examined
	execBytes      int64
	unpacked       int64
	first          string // the first member that calls the page
	flate          io.ReadCloser
	why            string                // why something was not examined, "" for nothing
	holders        [maxNested + 1]holder // for the current member, at each depth
}

func (z *zipLook) close() {
	for i := range z.holders {
		z.holders[i].Close()
	}
}

// missed records that a member was not examined; only the first one is reported.
func (z *zipLook) missed(name, format string, a ...any) {
	if z.why == "" {
		z.why = strings.TrimPrefix(name+": ", ": ") + fmt.Sprintf(format, a...) + ", not examined"
	}
}

// nested examines a file of size bytes that may have others in it; name is "" for the outermost one.
func (z *zipLook) nested(r io.ReaderAt, size int64, name string, depth int) error {
	var head [elfHead]byte
	if _, err := r.ReadAt(head[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	begins := func(magic string) bool { return bytes.HasPrefix(head[:], []byte(magic)) }
	switch {
	case begins(squashMagic):
		z.missed(name, "a squashfs file system in a file")
		return nil
	case begins(zipMagic): // also a damaged one
		return z.archive(r, size, name, depth)
	}
	is, err := endsInZip(r, size)
	switch {
	case is:
		return z.archive(r, size, name, depth)
	case err == nil && begins(scriptMagic):
		binary, err := hasBinary(r, size)
		if binary {
			z.missed(name, "a script with binary data after its text")
		}
		return err
	}
	return err
}

func (z *zipLook) archive(r io.ReaderAt, size int64, name string, depth int) error {
	if depth > maxNested {
		z.missed(name, "an archive in archives")
		return nil
	}
	// A failed read through r is an error; wrong data in the archive is not.
	failed := &failing{r: r}
	all, err := zip.NewReader(failed, size)
	if failed.err != nil {
		return failed.err
	}
	if err != nil {
		z.missed(name, "a damaged zip archive (%v)", err)
		return nil
	}
	for _, f := range all.File {
		if z.members++; z.members > maxMembers {
			z.missed(name, "more than %d members", maxMembers)
			return nil
		}
		z.member(f, strings.TrimPrefix(name+"!"+f.Name, "!"), depth)
		if failed.err != nil {
			return failed.err
		}
	}
	return nil
}

func (z *zipLook) member(f *zip.File, name string, depth int) {
	if f.UncompressedSize64 < elfHead && f.CompressedSize64 < 2*elfHead { // also if the first is wrong
		return
	}
	const encrypted = 1 // general purpose bit flag, 4.4.4
	if f.Flags&encrypted != 0 {
		z.missed(name, "encrypted")
		return
	}
	var head [elfHead]byte
	if z.begin(f, head[:]) && !toUnpack(f.Name, head[:]) {
		return
	}
	r, err := f.Open()
	if err != nil {
		z.missed(name, "cannot be unpacked (%v)", err)
		return
	}
	defer r.Close()
	if _, err := io.ReadFull(r, head[:]); err != nil {
		z.missed(name, "cannot be unpacked (%v)", err)
		return
	}
	if !toUnpack(f.Name, head[:]) {
		return
	}
	size := f.UncompressedSize64
	if size > maxUnpacked-uint64(z.unpacked) {
		z.missed(name, "%d bytes, too large to be unpacked here", size)
		return
	}
	b, err := z.holders[depth].hold(io.MultiReader(bytes.NewReader(head[:]), r), int64(size))
	z.unpacked += int64(size)
	if err == nil {
		// Another byte, or an error, shows that the member is longer than declared or has another checksum.
		if _, err = io.ReadFull(r, make([]byte, 1)); err == io.EOF {
			err = nil
		} else if err == nil {
			err = io.ErrUnexpectedEOF
		}
	}
	if err != nil {
		z.missed(name, "cannot be unpacked (%v)", err)
		return
	}
	if isELF(head[:]) {
		err = z.program(b, int64(size), name, depth)
	} else {
		err = z.nested(b, int64(size), name, depth+1)
	}
	if err != nil {
		z.missed(name, "%v", err)
	}
}

// toUnpack reports whether to examine a member that begins with head.
func toUnpack(name string, head []byte) bool { return isCandidate(name, head) }

// begin unpacks the start of a member from its first compressed bytes; it returns false if these are too few. Most
// members of a jar are classes, and to open one unpacks 32 KiB of it.
func (z *zipLook) begin(f *zip.File, head []byte) bool {
	const enough = 256 // bytes; a block's codes take about 80 (RFC 1951, 3.2.7)
	raw, err := f.OpenRaw()
	if err != nil || f.Method != zip.Deflate {
		return false
	}
	if z.flate == nil {
		z.flate = flate.NewReader(nil)
	}
	if err := z.flate.(flate.Resetter).Reset(io.LimitReader(raw, enough), nil); err != nil {
		return false
	}
	_, err = io.ReadFull(z.flate, head)
	return err == nil
}

func (z *zipLook) program(r io.ReaderAt, size int64, name string, depth int) error {
	report, err := patch.Scan(r, size)
	switch {
	case err != nil:
		return err
	case report.Skipped.MayCall():
		z.missed(name, "%s", report.Skipped)
	case report.Count(find.Live)+report.Count(find.Unknown) > 0:
		if z.calls++; z.calls == 1 {
			z.first = name
		}
	case report.Skipped == nil:
		z.programs++
		z.execBytes += report.ExecBytes
		switch why, err := packers.Inside(r, size); {
		case err != nil:
			return err
		case why != "":
			z.missed(name, "%s", why)
		}
	}
	return z.nested(r, size, name, depth+1)
}

// failing keeps the first error of a reader except for EOF.
type failing struct {
	r   io.ReaderAt
	err error
}

func (f *failing) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.r.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) && f.err == nil {
		f.err = err
	}
	return n, err
}
