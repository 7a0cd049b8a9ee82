// Programs inside other files. Zip archives (a jar, a wheel, a zipapp, also after a program or a #! line) are
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
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/packers"
	"vfix.dev/vfix/rewriter/elf"
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
	// lookBack is how much of a program's end is searched for an archive after it, in bytes.
	lookBack = 4096
)

// Marks. Sources: APPNOTE.TXT of PKWARE, 4.3.7; linux/squashfs_fs.h.
const (
	zipMagic    = "PK\x03\x04"
	zipEnd      = "PK\x05\x06"
	scriptMagic = "#!"
	squashMagic = "hsqs"
)

// isCandidate reports whether to examine a file that begins with head.
func isCandidate(head []byte) bool { return isELF(head) || isNested(head) }

// isNested reports whether a file that begins with head has other files in it.
func isNested(head []byte) bool {
	return bytes.HasPrefix(head, []byte(zipMagic)) || bytes.HasPrefix(head, []byte(squashMagic)) || bytes.HasPrefix(head, []byte(scriptMagic))
}

// unread returns the result for a file that was not examined.
func unread(format string, a ...any) *elfInfo {
	return &elfInfo{passed: fmt.Sprintf(format, a...), unread: true}
}

// examineNested examines a file with other files in it; nil means that none of them calls the page.
func examineNested(head []byte, r io.ReaderAt, size int64) (*elfInfo, error) {
	if bytes.HasPrefix(head, []byte(squashMagic)) {
		return unread("a squashfs file system in a file, which is not examined"), nil
	}
	if bytes.HasPrefix(head, []byte(scriptMagic)) {
		return examineScript(r, size)
	}
	return examineZip(r, size)
}

// examineZip examines a zip archive; nil for nothing to report.
func examineZip(r io.ReaderAt, size int64) (*elfInfo, error) {
	z := &zipLook{}
	defer z.close()
	err := z.archive(r, size, "", 1)
	switch {
	case z.calls > 0:
		return unread("a zip archive with programs or libraries that call the vsyscall page, the first of %d is %s: they are not patched", z.calls, z.first), err
	case z.why != "":
		return unread("a zip archive: %s", z.why), err
	}
	return nil, err
}

// zipBehind examines the zip archive at the end of a file; is reports that the file has one.
func zipBehind(r io.ReaderAt, size int64) (info *elfInfo, is bool, err error) {
	tail := make([]byte, min(size, lookBack))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	if !bytes.Contains(tail, []byte(zipEnd)) {
		return nil, false, nil
	}
	if _, err := zip.NewReader(r, size); err != nil { // the bytes have another meaning
		return nil, false, nil
	}
	info, err = examineZip(r, size)
	return info, true, err
}

// examineScript examines the data after the text of a script: a zip archive (a zipapp, pex), or data that the
// script unpacks and runs (gzexe, makeself).
func examineScript(r io.ReaderAt, size int64) (*elfInfo, error) {
	info, is, err := zipBehind(r, size)
	if is || err != nil {
		return info, err
	}
	b := make([]byte, blob.CopyBuffer)
	for at := int64(0); at < size; at += int64(len(b)) {
		n, err := r.ReadAt(b[:min(size-at, int64(len(b)))], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if bytes.IndexByte(b[:n], 0) >= 0 {
			return unread("a script with binary data after its text, which is not examined"), nil
		}
	}
	return nil, nil
}

// zipLook is the examination of an archive and those in it.
type zipLook struct {
	members, calls int
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

// archive examines an archive of size bytes; name is "" for the outermost one.
func (z *zipLook) archive(r io.ReaderAt, size int64, name string, depth int) error {
	// A failed read through r is an error; wrong data in the archive is not.
	failed := &failing{r: r}
	all, err := zip.NewReader(failed, size)
	if failed.err != nil {
		return failed.err
	}
	if err != nil {
		z.missed(name, "damaged (%v)", err)
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
	if f.FileInfo().IsDir() || f.UncompressedSize64 < elfHead {
		return
	}
	const encrypted = 1 // general purpose bit flag, 4.4.4
	if f.Flags&encrypted != 0 {
		z.missed(name, "encrypted")
		return
	}
	var head [elfHead]byte
	if z.begin(f, head[:]) && !toUnpack(head[:]) {
		return
	}
	r, err := f.Open()
	if err != nil {
		z.missed(name, "cannot be unpacked (%v)", err)
		return
	}
	defer r.Close()
	n, err := io.ReadFull(r, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		z.missed(name, "cannot be unpacked (%v)", err)
		return
	}
	if !toUnpack(head[:n]) {
		return
	}
	size := f.UncompressedSize64
	if size > maxUnpacked-uint64(z.unpacked) {
		z.missed(name, "%d bytes, too large to be unpacked here", size)
		return
	}
	b, err := z.holders[depth].hold(io.MultiReader(bytes.NewReader(head[:n]), r), int64(size))
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
	if isNested(head[:n]) {
		if depth == maxNested || bytes.HasPrefix(head[:n], []byte(squashMagic)) {
			z.missed(name, "an archive in archives")
			return
		}
		if err := z.archive(b, int64(size), name, depth+1); err != nil {
			z.missed(name, "%v", err)
		}
		return
	}
	z.program(b, int64(size), name)
}

// toUnpack reports whether to examine a member that begins with head.
func toUnpack(head []byte) bool {
	return isCandidate(head) && !elf.IsArchive(head) && !bytes.HasPrefix(head, []byte(scriptMagic))
}

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

func (z *zipLook) program(r io.ReaderAt, size int64, name string) {
	report, err := patch.Scan(r, size)
	switch {
	case err != nil:
		z.missed(name, "%v", err)
	case report.Skipped.MayCall():
		z.missed(name, "%s", report.Skipped)
	case report.Skipped != nil:
	case report.Count(find.Live)+report.Count(find.Unknown) > 0 || report.Count(find.DormantCall) > 0:
		if z.calls++; z.calls == 1 {
			z.first = name
		}
	default:
		switch why, err := packers.Inside(r, size); {
		case err != nil:
			z.missed(name, "%v", err)
		case why != "":
			z.missed(name, "%s", why)
		}
	}
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
