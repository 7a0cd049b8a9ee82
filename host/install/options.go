// Options, results and errors of Install and Uninstall.

package install

import (
	"errors"
	"regexp"

	"vfix.dev/vfix/internal/hinterr"
)

// Errors that a caller may have to distinguish, besides the kinds of package hinterr.
var (
	ErrNoEngine = errors.New("no such engine here")
	ErrConflict = errors.New("in the way")
	ErrBusy     = errors.New("another vfix is running")
)

// Options are the options of Install and Uninstall.
type Options struct {
	Engine  Engine // of Engines, or Auto for Install; for Uninstall "" means all that are installed
	Root    string // the directory that is taken for /
	Name    string // name of the runtime
	Program string // Install: path of the vfix to copy, outside of Root
	Prefix  string // Install: the program goes to bin in this directory of Root
	Config  string // Install: the engine's configuration file in Root, "" for the usual one
	Runtime string // Install: name or path of the real runtime; "" is left to vfix-runtime
	// Install: a container that vfix cannot patch does not start.
	FailClosed bool
	// Install: only containers that ask for it are fixed.
	OptIn bool
	// Install: all containers get the preload library.
	Fallback bool
	// Install: containers that name no runtime get this one.
	Default bool
	// Install: the engine gets an OCI hook, and no runtime (HookEngines).
	Hook bool
	// Install: even if the engine is not found, or would not read the written files.
	// Uninstall: even while containers run that were started through vfix-runtime.
	Force  bool
	DryRun bool
	// Show gets the changes before they are made. It may be nil.
	Show func(*Result)
}

// Result is what Install or Uninstall did, or would do.
type Result struct {
	Engines  []Engine `json:"engines"`
	Changes  []Change `json:"changes"`  // empty: nothing to do
	Commands []string `json:"commands"` // commands that make the engines read it
	Notes    []string `json:"notes"`    // further information
	Warnings []string `json:"warnings"` // what may not work
	// RuntimeClass is the YAML text of the Kubernetes object that names the runtime; "" for
	// engines that Kubernetes does not use.
	RuntimeClass string `json:"runtime_class"`
}

// Action is what happens to a file.
type Action string

const (
	Create  Action = "create"
	Replace Action = "replace"
	Remove  Action = "remove"
	Restore Action = "restore"  // as it was before vfix
	TakeOut Action = "take-out" // vfix's part is removed, other changes stay
)

// Change is what happens to one file.
type Change struct {
	Path   string `json:"path"` // from the root, with a leading slash
	Action Action `json:"action"`
	Size   int    `json:"size"` // bytes, afterwards
	Link   string `json:"link"` // the target of a symlink
	Diff   string `json:"diff"` // unified; "" for a program
}

// maxName is the length of a DNS label (RFC 1123): a RuntimeClass's handler must be one.
const maxName = 63

// CheckName reports whether a runtime can have this name in every engine.
func CheckName(name string) error {
	label := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	switch {
	case len(name) > maxName || !label.MatchString(name):
		return hinterr.Errorf(hinterr.ErrUnsupported, "runtime name %q: want lower-case letters, digits and inner hyphens, at most %d", name, maxName)
	case name == "runc" || name == "crun":
		return hinterr.Errorf(hinterr.ErrUnsupported, "runtime name %s: that is another runtime's", name)
	}
	return nil
}
