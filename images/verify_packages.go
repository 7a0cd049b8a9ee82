// Changed files of md5sums, compared with what --update-dpkg makes of the base's.

package images

import (
	"bytes"
	"io"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/records"
)

// addPair notes a file that was proved to differ in call sites only.
func addPair(f *records.FileChanges, p pair, before, after *io.SectionReader) error {
	was, err := records.MD5Of(io.NewSectionReader(before, 0, before.Size()))
	if err != nil {
		return err
	}
	is, err := records.MD5Of(io.NewSectionReader(after, 0, after.Size()))
	if err != nil {
		return err
	}
	f.Add(p.base, []string{p.name}, was, is)
	f.Bases = nil // of other names nothing is known here: all are looked up
	return nil
}

// databases proves that changed files of md5sums are what --update-dpkg makes of the base's:
// corrected where a proved file's record was, and nowhere else.
func (v *verification) databases(changed []pair, proved *records.FileChanges, before, after map[*contents.Inode]*io.SectionReader) error {
	for _, p := range changed {
		if p.after.Size > records.MaxMD5Sums || p.base.Size > records.MaxMD5Sums {
			v.problem("%s: not compared: larger than %d bytes", p.name, int64(records.MaxMD5Sums))
			continue
		}
		was, err := io.ReadAll(io.NewSectionReader(before[p.base], 0, p.base.Size))
		if err != nil {
			return err
		}
		is, err := io.ReadAll(io.NewSectionReader(after[p.after], 0, p.after.Size))
		if err != nil {
			return err
		}
		if want, _ := records.CorrectMD5Sums(was, proved.Lookup); !bytes.Equal(is, want) {
			v.problem("%s: changed, and not in the md5sums of patched files alone", p.name)
			continue
		}
		v.out.Corrected = append(v.out.Corrected, p.name)
	}
	return nil
}
