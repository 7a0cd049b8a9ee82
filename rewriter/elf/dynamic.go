// The names of other files that are loaded with a file.

package elf

// Tags of dynamic entries that name files or directories (gABI chapter 5).
const (
	DTRPath   = 15
	DTRunpath = 29

	// maxDynString is the longest such entry that is read, in bytes: some are lists of directories.
	maxDynString = 16 << 10
)

// DynStrings returns the texts of the dynamic entries with a tag from the string table, in order; "" for one
// outside of the file.
func (f *File) DynStrings(tag int64) []string {
	var all []string
	for _, d := range f.Dynamic {
		if d.Tag == tag && f.Dyn(DTStrtab) != nil {
			all = append(all, f.dynString(&d, maxDynString))
		}
	}
	return all
}

// dynString returns the text of a dynamic entry from the string table, of at most most bytes; "" for none.
func (f *File) dynString(d *Dyn, most uint64) string {
	table := f.Dyn(DTStrtab)
	if table == nil {
		return ""
	}
	return cString(f.Mem(table.Val+d.Val, most), 0)
}

// Interp returns the path of the file's loader, "" for none.
func (f *File) Interp() string {
	p := f.Prog(PTInterp)
	if p == nil {
		return ""
	}
	return cString(append(f.Bytes(p.Off, min(p.Filesz, maxDynString)), 0), 0)
}
