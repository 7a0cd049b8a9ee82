// The options of the plugin.

// Package nri is a plugin of NRI, the Node Resource Interface of containerd and CRI-O: it adds vfix-runtime as an OCI
// hook to the containers of selected pods, without changing the engine's configuration.
// https://github.com/containerd/nri
//
// The plugin selects, and the hook does the work and decides by the node's configuration: NRI allows 2 s for a request,
// and does not pass the path of the root filesystem.
//
//	plugin   the connection to the engine, and its requests
//	select   which containers, and what the engines report about them
//	hook     the program of the hook is written where the engine finds it
package nri

import (
	"fmt"
	"path/filepath"
	"strings"
)

const (
	// Defaults of Options.

	DefaultSocket = "/var/run/nri/nri.sock" // of containerd and CRI-O
	DefaultDir    = "/opt/vfix/nri"
	// HookName is the name of the hook's program.
	HookName = "vfix-runtime"
)

// Options are the options of the plugin.
type Options struct {
	Selection
	// Socket is the engine's, Dir the directory for the hook's program: the engine must have it at the same path.
	Socket, Dir string
	// Log prints a message. Several threads may call it.
	Log func(format string, args ...any)
}

// Hook is the path of the hook's program.
func (o Options) Hook() string { return filepath.Join(o.Dir, HookName) }

// Selection are the containers that the node's owner selects. Each list that is not empty must have a pattern that
// matches; a pattern that begins with ! excludes. They are read by package textutil.
type Selection struct {
	Namespaces  []string
	Images      []string
	Labels      []string // KEY or KEY=PATTERN, of the pod
	Annotations []string // the same
}

// Check reports errors in the options.
func (o Options) Check() error {
	for name, list := range map[string][]string{"namespace": o.Namespaces, "image": o.Images, "label": o.Labels, "annotation": o.Annotations} {
		for _, p := range list {
			if p == "" || p == "!" || strings.HasPrefix(strings.TrimPrefix(p, "!"), "=") {
				return fmt.Errorf("--%s: %q is not a pattern", name, p)
			}
		}
	}
	for name, path := range map[string]string{"socket": o.Socket, "hook-dir": o.Dir} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("--%s: %q is not an absolute path", name, path)
		}
	}
	return nil
}
