// Command vfix-runtime is what engines execute at each start of a container, in front of an OCI runtime or as a hook:
// package node and nothing else. It is a separate program because starting a program is most of the cost: vfix also
// contains registries, credentials and drawings.
//
// vfix has it embedded, and 'vfix install' writes it.
package main

import (
	"os"
	"runtime"

	"vfix.dev/vfix/host/examiner"
	"vfix.dev/vfix/host/node"
	"vfix.dev/vfix/shim"
)

// version is set when it is built: -ldflags "-X main.version=1.2.3".
var version = "devel"

// The runtime gets the signal that engines ask for at the end of their process (PR_SET_PDEATHSIG, prctl(2)): it is a
// setting of the first thread, so that thread executes the runtime.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) > 0 && os.Args[0] == examiner.Name {
		os.Exit(examiner.Main())
	}
	os.Exit(node.Main(os.Args[1:], node.Options{
		Version: version,
		Maker:   version + " " + string(shim.Magic()),
		Library: shim.Library, Library32: shim.Library32,
	}))
}
