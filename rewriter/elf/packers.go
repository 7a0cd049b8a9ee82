// Recognises programs whose visible code is only part of what they run.

package elf

import "bytes"

const (
	// packerHead is how much of a program's start is looked at for the mark of a packer, in bytes: it is behind the program
	// headers.
	packerHead = 1024
	// packerTail is how much of its end is looked at: PyInstaller's cookie has 88 bytes, and a signature may follow.
	packerTail = 4096
)

// Marks. Sources: the AppImage specification; UPX's src/conf.h and p_lx_elf.cpp; PyInstaller's archive/writers.py.
const (
	appImageMagic = "AI" // at offset 8, and a byte with the type
	appImageAt    = 8
	upxMagic      = "UPX!"
	pyMagic       = "MEI\x0c\x0b\x0a\x0b\x0e"
)

// PackedBy says why a program is not all of the code that it runs, "" if nothing shows that.
func (f *File) PackedBy() string {
	head := f.Bytes(0, min(f.Size, packerHead))
	switch {
	case bytes.Contains(head, []byte(upxMagic)):
		return "compressed with UPX: its code is not to be seen; 'upx -d' unpacks it"
	case len(head) > appImageAt+len(appImageMagic) && string(head[appImageAt:appImageAt+len(appImageMagic)]) == appImageMagic:
		return "an AppImage: the file system in it is not looked into; '--appimage-extract' unpacks it"
	}
	n := min(f.Size, packerTail)
	if f.IsProgram() && bytes.Contains(f.Bytes(f.Size-n, n), []byte(pyMagic)) {
		return "a program of PyInstaller: the libraries in it are not looked into"
	}
	return ""
}
