package patch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"vfix.dev/vfix/rewriter/elf"
)

// BenchmarkScan measures the search over real code, that of the Go toolchain's own compiler, in a file in memory.
func BenchmarkScan(b *testing.B) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Skip("no go command to ask where its compiler is: ", err)
	}
	names, _ := filepath.Glob(filepath.Join(string(bytes.TrimSpace(root)), "pkg/tool/linux_amd64/compile"))
	if len(names) == 0 {
		b.Skip("no compiler for linux/amd64 to read")
	}
	file, err := os.ReadFile(names[0])
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		typ  byte
	}{{"library", elf.TypeDyn}, {"program at a fixed address", elf.TypeExec}} {
		file[16] = c.typ // e_type
		b.Run(c.name, func(b *testing.B) {
			r := scanFile(b, file)
			if r.ExecBytes == 0 || len(r.Sites) != 0 {
				b.Fatalf("skipped %q, %d sites", r.Skipped, len(r.Sites))
			}
			b.SetBytes(r.ExecBytes)
			for b.Loop() {
				if _, err := Scan(elf.Memory(file), int64(len(file))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
