package embedded

import (
	"embed"
	"fmt"
	"io/fs"

	"vfix.dev/vfix/internal/programs"
)

// maxSize is larger than any of the programs, in bytes.
const maxSize = 1 << 30

// The files that make builds, and a README, so that Go compiles before make has run. Package install finds
// vfix-runtime in the bytes of this program.
//
//go:embed programs
var files embed.FS

func file(name string) string { return "programs/" + name + ".gz" }

// Program is one of the programs.
func Program(name string) ([]byte, error) {
	b, err := files.ReadFile(file(name))
	if err != nil {
		return nil, fmt.Errorf("%s: this vfix was built without it: build it with make", name)
	}
	all := programs.CarriedIn(b)
	if len(all) != 1 {
		return nil, fmt.Errorf("%s: %d programs in its file", name, len(all))
	}
	return all[0].Unpack(maxSize)
}

// Size is the size in bytes of a compressed program in this one, 0 for none.
func Size(name string) int64 {
	fi, err := fs.Stat(files, file(name))
	if err != nil {
		return 0
	}
	return fi.Size()
}
