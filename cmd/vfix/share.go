//go:build share

// The files that make install puts into share/ beside the program: man pages, made from the commands and
// the topics of help, and completions. Releases are built without this file and what it needs;
// deploy/release/share runs it, `go run -tags share ./cmd/vfix DIR VERSION`. The date of the pages
// is SOURCE_DATE_EPOCH.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vfix.dev/vfix/cmd/vfix/manual"
	"vfix.dev/vfix/cmd/vfix/markdown"
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
	err := writeManual(filepath.Join(os.Args[1], "man"), os.Args[2])
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

// writeManual writes a page for vfix, for each verb and for each topic.
func writeManual(dir, version string) error {
	for _, section := range []string{"man1", "man7"} {
		if err := os.MkdirAll(filepath.Join(dir, section), 0o755); err != nil {
			return err
		}
	}
	root := newRootCommand(newOutput(os.Stdout, os.Stderr), theEngine)
	root.Long = docOpening
	_, statuses, _ := strings.Cut(markdown.Plain(source("reference", "exit-status")), "\n") // behind its title
	root.Annotations = exits(statuses)
	names := slices.DeleteFunc(topicNames(), func(name string) bool { return name == "json-schema" }) // for programs
	for _, cmd := range append(root.Commands(), root) {
		if cmd.HasParent() && !cmd.IsAvailableCommand() {
			continue // hidden: for programs
		}
		page := manual.Command(cmd, helpText(cmd), cmd.Annotations[exitAnnotation], version, names)
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		if err := os.WriteFile(filepath.Join(dir, "man1", name), page, 0o644); err != nil {
			return err
		}
	}
	for _, t := range topics() {
		if !slices.Contains(names, t.name) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "man7", "vfix-"+t.name+".7"), manual.Topic(t.name, t.short, t.text(), version), 0o644); err != nil {
			return err
		}
	}
	return nil
}
