// Calls, the start of vfix itself, and scans.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// calls prints what a call costs on this machine, before and after patching: vfix's own verb.
func (b *bench) calls() error {
	cmd := exec.Command(b.vfix, "bench")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	fmt.Println()
	return err
}

// version compares the start of vfix with that of a static Go program that does nothing.
func (b *bench) version() error {
	empty, err := b.empty()
	if err != nil {
		return err
	}
	commands := b.variants(func(vfix, name string) command {
		return command{name: name + " version", args: []string{vfix, "version"}}
	})
	return b.compare("The start of a program", append(commands, command{name: "empty", args: []string{empty}})...)
}

// empty builds a static Go program that does nothing.
func (b *bench) empty() (string, error) {
	source, program := filepath.Join(b.dir, "empty.go"), filepath.Join(b.dir, "empty")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return program, nil
}

// scan compares scans of this machine's libraries with a search for the bytes that every address of the
// page ends with, by ripgrep if it is installed.
func (b *bench) scan() error {
	const directory = "/usr/lib/x86_64-linux-gnu"
	commands := b.variants(func(vfix, name string) command {
		// 3: it has call sites; 4: it needs libraries of elsewhere.
		return command{name: name, args: []string{vfix, "scan", directory}, statuses: []int{3, 4}}
	})
	if rg, err := exec.LookPath("rg"); err == nil {
		// 1: nothing matches.
		commands = append(commands, command{name: "rg", args: []string{rg, "-uuu", "-l", "-a", `(?-u)\x60\xff\xff`, directory}, statuses: []int{1}})
	}
	return b.compare("A scan of "+directory, commands...)
}
