//go:build linux

// Command vfix-nri is the program that 'vfix nri' executes: the plugin of NRI. It is a separate
// program because of the work that its libraries do before main. It is embedded in vfix and never written to
// disk.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"vfix.dev/vfix/host/node"
	"vfix.dev/vfix/host/nri"
)

func main() {
	o, err := nri.Parse(os.Args)
	if err != nil {
		log("error: %v", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	serve(ctx, Options{o, log})
}

// log prints a line to stderr, in one write, without what a terminal would obey: names in it are a pod's.
func log(format string, args ...any) {
	fmt.Fprintln(os.Stderr, "vfix: "+node.OneLine(fmt.Sprintf(format, args...)))
}
