// Package plugin is a plugin of NRI, the Node Resource Interface of containerd and CRI-O: it adds vfix-runtime as
// an OCI hook to the containers of selected pods, without a RuntimeClass and without changing the engine's
// configuration. https://github.com/containerd/nri
//
// The plugin decides, the hook does the work: NRI allows 2 s for a request, and does not pass the path of the
// root filesystem.
//
//	select   which containers, and what the engines report of them
//	plugin   requests of the engine, one connection after the other
//	follow   what became of containers that got the hook
//	program  vfix-runtime and its configuration, written where the engine finds them
//	audit    images that would be patched, without a hook
package plugin

import "vfix.dev/vfix/host/nri"

// Options are those of 'vfix nri', and the plugin's output.
type Options struct {
	nri.Options
	Hook []byte // the program of the hook
	// Log prints a message, Result a finding of an audit. Several threads may call them.
	Log, Result func(format string, args ...any)
}
