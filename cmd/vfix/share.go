//go:build share

// The man pages that make install puts into share/ beside the program; cobra makes them from the commands. Releases are
// built without this file; deploy/release/share runs it,
// `go run -tags share ./cmd/vfix DIR VERSION`. The date of the pages is SOURCE_DATE_EPOCH.

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"
)

func init() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run -tags share ./cmd/vfix DIR VERSION")
		os.Exit(statusUsage)
	}
	if err := writeManual(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(statusError)
	}
	os.Exit(statusDone)
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
