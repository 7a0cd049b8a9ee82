// The names of a file, and of other files that are loaded with it.

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
func (f *File) DynStrings(tag int64) (all []string) {
	table := f.Dyn(DTStrtab)
	for _, d := range f.Dynamic {
		if d.Tag == tag && table != nil {
			all = append(all, cString(f.Mem(table.Val+d.Val, maxDynString), 0))
		}
	}
	return all
}

// Soname returns the DT_SONAME of a shared library.
func (f *File) Soname() string {
	if names := f.DynStrings(DTSoname); len(names) > 0 {
		return names[0]
	}
	return ""
}

// Interp returns the path of the file's loader, "" for none.
func (f *File) Interp() string {
	p := f.Prog(PTInterp)
	if p == nil {
		return ""
	}
	return cString(append(f.Bytes(p.Off, min(p.Filesz, maxDynString)), 0), 0)
}
