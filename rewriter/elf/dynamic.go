// The file's statements about the others that are loaded with it.

package elf

import "bytes"

// Tags of dynamic entries that name files or folders (gABI chapter 5; elf.h for the last two).
const (
	DTRPath     = 15
	DTRunpath   = 29
	DTAuxiliary = 0x7ffffffd
	DTFilter    = 0x7fffffff

	dtStrsz = 10
	// maxDynString is the longest such entry that is read, in bytes: some are lists of folders.
	maxDynString = 64 << 10
)

// DynStrings returns the texts that the dynamic entries with a tag have in the string table, in their
// order. One that is not in the file is "".
func (f *File) DynStrings(tag int64) []string {
	var all []string
	for _, d := range f.Dynamic {
		if d.Tag == tag && f.Dyn(DTStrtab) != nil {
			all = append(all, f.dynString(&d, maxDynString))
		}
	}
	return all
}

// dynString returns the text, of at most so many bytes, that a dynamic entry has in the string table; "" for none.
func (f *File) dynString(d *Dyn, most uint64) string {
	table := f.Dyn(DTStrtab)
	if table == nil {
		return ""
	}
	b, err := f.peekMem(table.Val+d.Val, most)
	if err != nil {
		return ""
	}
	return cString(b, 0)
}

// HasDynString reports whether the dynamic string table has a text: the name of a symbol that is used or
// defined, among others.
func (f *File) HasDynString(text string) bool {
	b, err := f.peekMem(f.Range(DTStrtab, dtStrsz))
	return err == nil && bytes.Contains(b, []byte("\x00"+text+"\x00"))
}

// Interp returns the path of the loader that the file names, "" for none.
func (f *File) Interp() string {
	p := f.Prog(PTInterp)
	if p == nil {
		return ""
	}
	b, err := f.Bytes(p.Off, min(p.Filesz, maxDynString))
	if err != nil {
		return ""
	}
	return cString(append(b, 0), 0)
}
