// Scans archives: the objects in them, or the files that a thin archive names.

package find

import (
	"fmt"
	"io"

	"vfix.dev/vfix/rewriter/elf"
)

// archived is an archive that is examined.
type archived struct {
	*elf.File
	rep     *Report
	objects int
	budget  *budget
}

// scanArchive finds the references in the objects of an archive. A damaged member is a note in the report; the
// others are examined.
func scanArchive(r io.ReaderAt, size int64) (*Report, error) {
	a := newArchived(r, size)
	if a.IsThin() {
		return &Report{Skipped: elf.NewSkip(elf.KindThin, "thin archive: its objects are separate files")}, nil
	}
	return a.report(a.File.EachMember(false, func(m elf.Member) error {
		return a.add(m, io.NewSectionReader(r, int64(m.Off), int64(m.Size)))
	}))
}

// ThinMember is an object of a thin archive, which is a file.
type ThinMember interface {
	io.ReaderAt
	Size() int64 // in bytes
	Close() error
}

// ScanThin is Scan for a thin archive; it returns nil for any other file. Its objects are the results of open for
// their names, which it closes. An error of open becomes a note about that object.
func ScanThin(r io.ReaderAt, size int64, open func(name string) (ThinMember, error)) (*Report, error) {
	a := newArchived(r, size)
	if !a.IsThin() {
		return nil, a.Err()
	}
	return a.report(a.File.EachMember(true, func(m elf.Member) error {
		content, err := open(m.Name)
		if err != nil {
			a.note(m, err)
			return nil
		}
		defer content.Close()
		m.Off, m.Size = 0, uint64(content.Size())
		return a.add(m, content)
	}))
}

func newArchived(r io.ReaderAt, size int64) *archived {
	return &archived{File: &elf.File{R: r, Size: uint64(size)}, rep: &Report{Object: true, Size: size}, budget: newBudget()}
}

// note records why a member is not examined.
func (a *archived) note(m elf.Member, why error) {
	a.rep.Notes = append(a.rep.Notes, fmt.Sprintf("archive member %s: %v", m.Name, why))
}

// add examines a member; r has its content.
func (a *archived) add(m elf.Member, r io.ReaderAt) error {
	rep := a.rep
	f := &elf.File{R: r, Size: m.Size}
	if !elf.IsObject(f.Bytes(0, min(m.Size, elf.IdentSize))) {
		return f.Err()
	}
	one, err := scanObject(r, int64(m.Size), a.budget)
	switch {
	case err != nil:
		return err
	case one.Skipped.Damaged():
		a.note(m, one.Skipped)
		return nil
	case one.Skipped != nil:
		return nil // for another machine
	}
	a.objects++
	rep.ExecBytes += one.ExecBytes
	if len(rep.Sites)+len(one.Sites) > maxSites {
		return tooMany()
	}
	for _, s := range one.Sites {
		s.Member = m.Name
		s.Offset += m.Off
		rep.Sites = append(rep.Sites, s)
	}
	if rep.Libc == "" {
		rep.Libc = one.Libc
	}
	return nil
}

// report returns the results; err is the error that ended the search.
func (a *archived) report(err error) (*Report, error) {
	rep := a.rep
	if a.Err() != nil {
		return nil, a.Err()
	}
	switch skip, ok := err.(*Skip); {
	case ok && len(rep.Sites) == 0:
		return &Report{Skipped: skip}, nil
	case ok:
		rep.Notes = append(rep.Notes, skip.String())
	case err != nil:
		return nil, err
	case len(rep.Sites) == 0 && len(rep.Notes) > 0:
		return &Report{Skipped: elf.NewSkip(elf.KindDamagedMember, "%s", rep.Notes[0])}, nil
	case a.objects == 0:
		return &Report{Skipped: elf.NewSkip(elf.KindNoObjects, "archive without x86-64 objects")}, nil
	}
	return rep, nil
}
