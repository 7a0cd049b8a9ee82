package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// program measures what the start of a program costs: `vfix version`, vfix-runtime that finds no
// runtime, and a static Go program that does nothing, in turn.
func (b *bench) program() error {
	empty, err := b.empty()
	if err != nil {
		return err
	}
	programs := [][]string{
		{empty}, {filepath.Join(filepath.Dir(b.vfix), "vfix-runtime"), "--runtime", filepath.Join(b.dir, "none")}, {b.vfix, "version"},
	}
	if b.before != "" {
		programs = append(programs, []string{b.before, "version"})
	}
	took := make([][]float64, len(programs))
	const rounds = 200
	for range rounds {
		for i, p := range programs {
			begun := time.Now()
			_ = exec.Command(p[0], p[1:]...).Run() // there is no such runtime
			took[i] = append(took[i], float64(time.Since(begun).Microseconds())/1e3)
		}
	}
	fmt.Printf("Programs: from start to end, milliseconds, %d rounds\n\n%-24s %8s %8s %18s\n", rounds, "program", "minimum", "median", "of the empty one")
	for i, p := range programs {
		name := filepath.Base(p[0])
		switch {
		case i == 0:
			name = "empty"
		case i > 1:
			name += " version"
		}
		if i > 2 {
			name += ", before"
		}
		fmt.Printf("%-24s %8.2f %8.2f %18.2f\n", name, slices.Min(took[i]), median(took[i]), median(took[i])/median(took[0]))
	}
	fmt.Println()
	return nil
}

// empty builds a static Go program that does nothing. It is named runc, as vfix starts nothing in place of a runtime that it
// does not know.
func (b *bench) empty() (string, error) {
	source, empty := filepath.Join(b.dir, "empty.go"), filepath.Join(b.dir, "empty", "runc")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", empty, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return empty, nil
}
