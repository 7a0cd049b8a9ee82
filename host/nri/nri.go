// The options of the plugin, and how they are passed to it.

// Package nri starts the plugin of NRI, which is a separate program: the libraries of that protocol would make each
// start of vfix a fifth slower. Package plugin is the plugin.
package nri

import (
	"encoding/json"
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

// arguments is the command line of the plugin's program: its name, and the options.
func (o Options) arguments() ([]string, error) {
	text, err := json.Marshal(o)
	return []string{"vfix-nri", string(text)}, err
}

// Parse reads the command line of the plugin's program.
func Parse(args []string) (o Options, err error) {
	if len(args) != 2 {
		return o, fmt.Errorf("started by 'vfix nri' alone: got %d arguments", len(args)-1)
	}
	return o, json.Unmarshal([]byte(args[1]), &o)
}
