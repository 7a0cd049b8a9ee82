// Recognises programs whose visible code is only part of what they run.

package elf

import (
	"bytes"
	"errors"
	"io"
)

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

// PackedBy says why a program of size bytes is not all of the code that it runs, "" if nothing shows that. Its
// errors are r's.
func PackedBy(r io.ReaderAt, size int64) (string, error) {
	head := make([]byte, min(size, packerHead))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	tail := make([]byte, min(size, packerTail))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch {
	case bytes.Contains(head, []byte(upxMagic)):
		return "compressed with UPX: its code is not to be seen; 'upx -d' unpacks it", nil
	case len(head) > appImageAt+len(appImageMagic) && string(head[appImageAt:appImageAt+len(appImageMagic)]) == appImageMagic:
		return "an AppImage: the file system in it is not looked into; '--appimage-extract' unpacks it", nil
	case bytes.Contains(tail, []byte(pyMagic)):
		return "a program of PyInstaller: the libraries in it are not looked into", nil
	}
	return "", nil
}
