//go:build linux

// Command vfix-nri is the program that 'vfix nri' executes: the plugin of NRI. It is a separate
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

	"vfix.dev/vfix/host/node"
	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/internal/hinterr"
)

func main() {
	if err := run(); err != nil {
		printError("%s: %v", "error", err)
		if h := hinterr.HintOf(err); h != "" {
			printError("%s: %s", "hint", h)
		}
		os.Exit(1)
	}
}

func run() error {
	o, err := nri.Parse(os.Args)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(o.Program), "vfix-runtime")
	hook, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return serveEngine(ctx, Options{Options: o, Hook: hook, Log: printError})
}

var output sync.Mutex

// printError prints a line to stderr, in one write, without what a terminal would obey: names in it are a pod's.
func printError(format string, args ...any) {
	text := node.OneLine(fmt.Sprintf(format, args...))
	output.Lock()
	defer output.Unlock()
	fmt.Fprintln(os.Stderr, "vfix: "+text)
}
