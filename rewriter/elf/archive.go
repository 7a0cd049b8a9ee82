// Archives of relocatable objects, which ar makes (lib*.a).

package elf

import (
	"strconv"
	"strings"
)

// The format of archives. Source: ar.h of glibc; GNU binutils' bfd/archive.c for long names, which are in a member
// of their own ("//"), and for thin archives; ar(5) of FreeBSD for names that begin with #1/ and precede the
// member's content.
const (
	archiveMagic = "!<arch>\n"
	thinMagic    = "!<thin>\n"
	memberHeader = 60 // ar_name 16, ar_date 12, ar_uid 6, ar_gid 6, ar_mode 8, ar_size 10, ar_fmag 2
	memberMagic  = "`\n"

	// maxMembers is the maximum number of members of one archive; the largest known ones have below 20,000.
	maxMembers = 1 << 17
	// maxMemberName is the longest member name that is shown, in bytes.
	maxMemberName = 200
)

// IsArchive reports whether head is the start of an archive.
func IsArchive(head []byte) bool {
	return strings.HasPrefix(string(head), archiveMagic) || strings.HasPrefix(string(head), thinMagic)
}

func damagedArchive(format string, a ...any) error {
	return NewSkip(KindDamagedArchive, format, a...)
}

// Member is one member of an archive.
type Member struct {
	Name      string
	Off, Size uint64 // of its content in the archive, in bytes
}

// EachMember calls visit for each member with content, and stops at its first error. In a thin archive, files with
// the members' names have the content.
func (f *File) EachMember(thin bool, visit func(Member) error) error {
	var names Member // the long names
	at := uint64(len(archiveMagic))
	for n := 0; at < f.Size; n++ {
		if n == maxMembers {
			return damagedArchive("more than %d members", maxMembers)
		}
		if !f.InFile(at, memberHeader) {
			return damagedArchive("ends inside the header of a member at offset %#x", at)
		}
		h := f.Bytes(at, memberHeader)
		if f.failed != nil {
			return f.failed
		}
		m := Member{strings.TrimRight(string(h[:16]), " "), at + memberHeader, 0}
		apart := thin && m.Name != "/" && m.Name != "/SYM64/" && m.Name != "//"
		var err error
		m.Size, err = strconv.ParseUint(strings.TrimRight(string(h[48:58]), " "), 10, 64)
		if err != nil || string(h[58:]) != memberMagic || !apart && !f.InFile(m.Off, m.Size) {
			return damagedArchive("header of a member at offset %#x", at)
		}
		if at = m.Off; !apart {
			at += m.Size + m.Size&1
		}
		switch m.Name {
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

// fullName replaces the name in the header by the full name, in printable ASCII.
func (m *Member) fullName(f *File, names Member) error {
	read := func(off, n uint64) { m.Name = string(f.Bytes(off, min(n, maxMemberName))) }
	if digits, ok := strings.CutPrefix(m.Name, "#1/"); ok {
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || n > m.Size || !f.InFile(m.Off, n) {
			return damagedArchive("name of the member at offset %#x", m.Off)
		}
		read(m.Off, n)
		m.Off, m.Size = m.Off+n, m.Size-n
	} else if digits, ok := strings.CutPrefix(m.Name, "/"); ok {
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || n >= names.Size {
			return damagedArchive("name of the member at offset %#x", m.Off)
		}
		read(names.Off+n, names.Size-n)
	}
	m.Name, _, _ = strings.Cut(m.Name, "\x00")
	m.Name, _, _ = strings.Cut(m.Name, "\n")
	m.Name = printable(strings.TrimSuffix(m.Name, "/"))
	return nil
}

// IsThin reports whether the file is a thin archive, which has names of files instead of content.
func (f *File) IsThin() bool { return string(f.Bytes(0, uint64(len(thinMagic)))) == thinMagic }
