//go:build share

// The files that make install puts into share/ beside the program: man pages, which cobra makes from the commands, and
// completions. Releases are built without this file; deploy/release/share runs it,
// `go run -tags share ./cmd/vfix DIR VERSION`. The date of the pages is SOURCE_DATE_EPOCH.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra/doc"
)

// completions are where the shells look for them, below share/.
var completions = map[string]string{
	"bash": "bash-completion/completions/vfix",
	"fish": "fish/vendor_completions.d/vfix.fish",
	"zsh":  "zsh/site-functions/_vfix",
}

func init() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run -tags share ./cmd/vfix DIR VERSION")
		os.Exit(statusUsage)
	}
	err := writeManual(filepath.Join(os.Args[1], "man", "man1"), os.Args[2])
	for shell, path := range completions {
		err = errors.Join(err, writeCompletion(shell, filepath.Join(os.Args[1], path)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(statusError)
	}
	os.Exit(statusDone)
}

// writeCompletion writes what `vfix completion SHELL` prints.
func writeCompletion(shell, path string) error {
	var script bytes.Buffer
	if status := vfix([]string{"completion", shell}, &script, os.Stderr, theEngine); status != statusDone {
		return fmt.Errorf("vfix completion %s: exit status %d", shell, status)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, script.Bytes(), 0o644)
}

// writeManual writes a page for vfix and one for each verb.
func writeManual(dir, version string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := newRootCommand(newOutput(os.Stdout, os.Stderr), theEngine, "")
	root.Long = docOpening
	root.DisableAutoGenTag = true
	for _, cmd := range root.Commands() {
		if short, text := helpOf(cmd.Name()); text != "" {
			cmd.Short, cmd.Long = short, text
		}
		cmd.DisableFlagsInUseLine = true
	}
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "vfix " + version}, dir)
}
