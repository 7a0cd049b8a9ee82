// Archives of relocatable objects: what ar makes (lib*.a).

package rewriter

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The format of archives. Source: ar.h of glibc; GNU binutils' bfd/archive.c for long names, which
// are in a member of their own ("//"), and for thin archives; ar(5) of FreeBSD for names that
// begin with #1/ and stand before the member's content.
const (
	archiveMagic = "!<arch>\n"
	thinMagic    = "!<thin>\n"
	memberHeader = 60 // ar_name 16, ar_date 12, ar_uid 6, ar_gid 6, ar_mode 8, ar_size 10, ar_fmag 2
	memberMagic  = "`\n"

	// maxMembers bounds the members of one archive; the largest real ones have below 20,000.
	maxMembers = 1 << 17
	// maxMemberName is the longest name of a member that is shown, in bytes.
	maxMemberName = 200
)

// IsArchive reports whether the first bytes of a file are those of an archive.
func IsArchive(head []byte) bool {
	return strings.HasPrefix(string(head), archiveMagic) || strings.HasPrefix(string(head), thinMagic)
}

func damagedArchive(format string, a ...any) error {
	return &skipError{reason: "damaged archive: " + fmt.Sprintf(format, a...), damaged: true}
}

// member is one member of an archive.
type member struct {
	name      string
	off, size uint64 // of its content in the archive
}

// eachMember calls visit for each member with content, and stops at its first error. In a thin
// archive the content is in files of the members' names.
func (f *elfFile) eachMember(thin bool, visit func(member) error) error {
	var names member // the long names
	at := uint64(len(archiveMagic))
	for n := 0; at < f.size; n++ {
		if n == maxMembers {
			return damagedArchive("more than %d members", maxMembers)
		}
		if !f.inFile(at, memberHeader) {
			return damagedArchive("ends inside the header of a member at offset %#x", at)
		}
		h, err := f.bytes(at, memberHeader)
		if err != nil {
			return err
		}
		m := member{strings.TrimRight(string(h[:16]), " "), at + memberHeader, 0}
		apart := thin && m.name != "/" && m.name != "/SYM64/" && m.name != "//"
		m.size, err = strconv.ParseUint(strings.TrimRight(string(h[48:58]), " "), 10, 64)
		if err != nil || string(h[58:]) != memberMagic || !apart && !f.inFile(m.off, m.size) {
			return damagedArchive("header of a member at offset %#x", at)
		}
		if at = m.off; !apart {
			at += m.size + m.size&1
		}
		switch m.name {
		case "/", "/SYM64/":
			continue
		case "//":
			names = m
			continue
		}
		if err := m.fullName(f, names); err != nil {
			return err
		}
		if err := visit(m); err != nil {
			return err
		}
	}
	return nil
}

// fullName replaces what the header has by the whole name, in printable ASCII.
func (m *member) fullName(f *elfFile, names member) error {
	read := func(off, n uint64) error {
		b, err := f.bytes(off, min(n, maxMemberName))
		m.name = string(b)
		return err
	}
	if digits, ok := strings.CutPrefix(m.name, "#1/"); ok {
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || n > m.size {
			return damagedArchive("name of the member at offset %#x", m.off)
		}
		if err := read(m.off, n); err != nil {
			return err
		}
		m.off, m.size = m.off+n, m.size-n
	} else if digits, ok := strings.CutPrefix(m.name, "/"); ok {
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || n >= names.size {
			return damagedArchive("name of the member at offset %#x", m.off)
		}
		if err := read(names.off+n, names.size-n); err != nil {
			return err
		}
	}
	m.name, _, _ = strings.Cut(m.name, "\x00")
	m.name, _, _ = strings.Cut(m.name, "\n")
	m.name = printable(strings.TrimSuffix(m.name, "/"))
	return nil
}

// archived is an archive that is examined.
type archived struct {
	*elfFile
	rep     *Report
	objects int
	budget  int
}

// scanArchive finds the references in the objects of an archive. What is wrong with a member is a
// note of the report; the others are examined.
func scanArchive(r io.ReaderAt, size int64) (*Report, error) {
	a := newArchived(r, size)
	if thin, err := a.isThin(); err != nil || thin {
		return &Report{Skipped: "thin archive: its objects are separate files"}, err
	}
	return a.report(a.elfFile.eachMember(false, func(m member) error {
		return a.add(m, io.NewSectionReader(r, int64(m.off), int64(m.size)))
	}))
}

// ThinMember is an object of a thin archive: a file.
type ThinMember interface {
	io.ReaderAt
	Size() int64 // in bytes
	Close() error
}

// ScanThin is Scan for a thin archive, nil for any other file: its objects are what open returns for
// their names. An error of open is a note about that object. Those without call sites are closed.
func ScanThin(r io.ReaderAt, size int64, open func(name string) (ThinMember, error)) (*Report, error) {
	a := newArchived(r, size)
	if thin, err := a.isThin(); err != nil || !thin {
		return nil, err
	}
	return a.report(a.elfFile.eachMember(true, func(m member) error {
		content, err := open(m.name)
		if err != nil {
			a.rep.notes = append(a.rep.notes, fmt.Sprintf("archive member %s: %v", m.name, err))
			return nil
		}
		m.off, m.size = 0, uint64(content.Size())
		before := len(a.rep.Sites)
		if err = a.add(m, content); err == nil && len(a.rep.Sites) == before {
			err = content.Close()
		}
		return err
	}))
}

func newArchived(r io.ReaderAt, size int64) *archived {
	return &archived{&elfFile{r: r, size: uint64(size)}, &Report{Object: true, size: size}, 0, maxSteps}
}

// isThin reports whether the file is a thin archive: one that names files in place of content.
func (f *elfFile) isThin() (bool, error) {
	if f.size < uint64(len(thinMagic)) {
		return false, nil
	}
	head, err := f.bytes(0, uint64(len(thinMagic)))
	return string(head) == thinMagic, err
}

// add examines a member; r has its content.
func (a *archived) add(m member, r io.ReaderAt) error {
	rep := a.rep
	var head [elfIdent]byte
	n := min(m.size, elfIdent)
	if err := (&elfFile{r: r, size: m.size}).readAt(head[:n], 0); err != nil {
		return err
	}
	if !isObject(head[:n]) {
		return nil
	}
	one, err := scanObject(r, int64(m.size), &a.budget)
	switch {
	case err != nil:
		return err
	case one.Damaged:
		rep.notes = append(rep.notes, fmt.Sprintf("archive member %s: %s", m.name, one.Skipped))
		return nil
	case one.Skipped != "":
		return nil // for another machine
	}
	a.objects++
	rep.ExecBytes += one.ExecBytes
	if len(rep.Sites)+len(one.Sites) > maxSites {
		return damaged("%d or more references to the vsyscall page", maxSites)
	}
	for _, s := range one.Sites {
		s.Member = m.name
		s.Offset += m.off
		rep.Sites = append(rep.Sites, s)
	}
	if rep.Libc == "" {
		rep.Libc = one.Libc
	}
	return nil
}

// report returns what was found; err is what ended the search.
func (a *archived) report(err error) (*Report, error) {
	rep := a.rep
	switch skip, ok := err.(*skipError); {
	case ok && len(rep.Sites) == 0:
		return &Report{Skipped: skip.reason, Damaged: skip.damaged}, nil
	case ok:
		rep.notes = append(rep.notes, skip.reason)
	case err != nil:
		return nil, err
	case len(rep.Sites) == 0 && len(rep.notes) > 0:
		return &Report{Skipped: rep.notes[0], Damaged: true}, nil
	case a.objects == 0:
		return &Report{Skipped: "archive without x86-64 objects"}, nil
	}
	return rep, nil
}
