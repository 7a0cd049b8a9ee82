//go:build linux

// Command vfix-nri is the program that 'vfix nri' executes: package plugin and nothing else. It is a separate
// program because of the work that its libraries do before main. It is embedded in vfix and never written to
// disk.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/host/nri/plugin"
	"vfix.dev/vfix/host/ociruntime"
	examiner "vfix.dev/vfix/host/oldexaminer"
	"vfix.dev/vfix/internal/hinterr"
)

func main() {
	if len(os.Args) > 0 && os.Args[0] == examiner.Name {
		os.Exit(examiner.Main())
	}
	if err := run(); err != nil {
		printTo(os.Stderr, "vfix: error: ")("%v", err)
		if h := hinterr.HintOf(err); h != "" {
			printTo(os.Stderr, "vfix: hint: ")("%s", h)
		}
		os.Exit(1)
	}
}

func run() error {
	o, err := nri.Parse(os.Args)
	if err != nil {
		return err
	}
	full := plugin.Options{Options: o, Log: printTo(os.Stderr, "vfix: "), Result: printTo(os.Stdout, "")}
	if o.Program > 0 {
		f := os.NewFile(uintptr(o.Program), "vfix-runtime")
		full.Hook, err = io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return plugin.Run(ctx, full)
}

// printTo prints lines, each in one write, without what a terminal would obey: names in them are a pod's.
func printTo(f *os.File, prefix string) func(format string, args ...any) {
	var mu sync.Mutex
	return func(format string, args ...any) {
		text := ociruntime.OneLine(fmt.Sprintf(format, args...))
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(f, prefix+text)
	}
}
