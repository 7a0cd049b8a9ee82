package images

import (
	"bytes"
	"io"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/packages"
)

// addPair notes a file that was proved to differ in call sites only.
func addPair(f *packages.FileChanges, p pair, before, after *io.SectionReader) error {
	was, err := packages.MD5Of(io.NewSectionReader(before, 0, before.Size()))
	if err != nil {
		return err
	}
	is, err := packages.MD5Of(io.NewSectionReader(after, 0, after.Size()))
	if err != nil {
		return err
	}
	f.Add(p.base, []string{p.name}, was, is)
	f.Bases = nil // of other names nothing is known here: all are looked up
	return nil
}

// databases proves that changed files of md5sums are what --update-dpkg makes of the base's:
// corrected where a proved file's record was, and nowhere else.
func (v *verification) databases(changed []pair, proved *packages.FileChanges, before, after map[*contents.Inode]*io.SectionReader) error {
	for _, p := range changed {
		if p.after.Size > packages.MaxMD5Sums || p.base.Size > packages.MaxMD5Sums {
			v.problem("%s: not compared: larger than %d bytes", p.name, int64(packages.MaxMD5Sums))
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
		if want, _ := packages.CorrectMD5Sums(was, proved.Lookup); !bytes.Equal(is, want) {
			v.problem("%s: changed, and not in the md5sums of patched files alone", p.name)
			continue
		}
		v.out.Corrected = append(v.out.Corrected, p.name)
	}
	return nil
}
