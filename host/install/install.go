// Install and Uninstall: which files change, in which order, and what to type next.

// Package install makes vfix-runtime known to a container engine. It writes two programs and one file of the engine's
// configuration, and Uninstall removes exactly these. Where an engine reads no directory of such files, the result has
// the lines to add by hand. Nothing is restarted.
package install

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"syscall"
)

const (
	// Dir is where the programs are installed, RuntimePath the one that engines execute.
	Dir         = "/usr/local/lib/vfix"
	RuntimePath = Dir + "/" + RuntimeName
	RuntimeName = "vfix-runtime"
	// Name is the name of the runtime in the engines that select one by name.
	Name = "vfix"
)

// programNames are the programs to install: what engines execute, and what removes it again.
var programNames = []string{"vfix", RuntimeName}

// Options are the choices of Install and Uninstall.
type Options struct {
	Engine  string // one of Engines; for Uninstall "" means all
	Root    string // the directory that is taken for /
	Config  string // the file that the engine reads, "" for the usual one
	Default bool   // Install, docker: also for containers that select no runtime
	DryRun  bool   // change nothing
	// Programs are the contents of the programs to install, by name.
	Programs map[string][]byte
}

// Result is what was done, or would be done.
type Result struct {
	Changes  []Change `json:"changes"`  // in their order; empty if nothing had to change
	Users    []string `json:"users"`    // Uninstall: containers that need the runtime
	Stays    bool     `json:"stays"`    // Uninstall: the runtime stays until it is run again
	Commands []string `json:"commands"` // that make the engines read their configuration
}

// Change is one file that was written or removed, or text that a person must add to a file or remove from it.
type Change struct {
	Path    string `json:"path"` // from the root, with a leading slash
	ByHand  bool   `json:"by_hand"`
	Removed bool   `json:"removed"`
	Size    int    `json:"size"` // bytes, afterwards
	Text    string `json:"text"` // the content of a configuration file, or the text; "" for a program
	program []byte
}

// usage says for which containers an engine uses the runtime.
type usage int

const (
	unused    usage = iota
	selected        // those that select it by its name; with a hook, all
	byDefault       // also those that select none
)

// Install makes vfix a runtime of an engine, or a hook. Running it again changes only what is not up to date.
func Install(o Options) (*Result, error) {
	t, err := openTree(o)
	if err != nil {
		return nil, err
	}
	e := engines[slices.Index(Engines(), o.Engine)] // the command checks the name
	e.config = cmp.Or(o.Config, e.config)
	use := selected
	if o.Default {
		use = byDefault
	}
	config, err := e.change(t, e, use)
	if err != nil {
		return nil, err
	}
	defer syscall.Umask(syscall.Umask(0o022)) // engines of ordinary users must be able to read it all
	for _, name := range programNames {
		if err := t.apply(Change{Path: path.Join(Dir, name), program: o.Programs[name]}, ""); err != nil {
			return nil, err
		}
	}
	return t.result, t.apply(config, e.reload) // the last one: the program that it names must exist
}

// Uninstall removes what Install wrote, for one engine or for all. The programs stay as long as the configuration of an
// engine names them (another engine's, one that a person must change, one with containers that need the runtime, or
// docker's until it is restarted without the default runtime), and as long as a container of any containerd runs by them.
func Uninstall(o Options) (*Result, error) {
	t, err := openTree(o)
	if err != nil {
		return nil, err
	}
	var paths []string // podman and CRI-O have one in common
	for _, e := range engines {
		if e.name == o.Engine {
			e.config = cmp.Or(o.Config, e.config)
		}
		config, err := e.change(t, e, unused)
		if err != nil {
			return nil, err
		}
		paths = append(paths, config.Path)
		asked := o.Engine == "" || e.name == o.Engine
		if !asked || !t.names(config.Path) {
			continue
		}
		users, err := t.users(e)
		if t.result.Users = append(t.result.Users, users...); len(users) > 0 {
			config, err = e.change(t, e, selected)
		}
		if err == nil {
			err = t.apply(config, cmp.Or(e.restart, e.reload))
		}
		if err != nil {
			return nil, err
		}
		t.result.Stays = t.result.Stays || t.names(config.Path)
	}
	if slices.ContainsFunc(paths, t.names) {
		return t.result, nil
	}
	// nerdctl and ctr execute the program by its path, and a person may have removed the lines of a configuration early.
	t.result.Users, err = t.running("/run/containerd", "/run/*/containerd")
	if t.result.Stays = len(t.result.Users) > 0; t.result.Stays {
		return t.result, nil
	}
	for _, name := range slices.Backward(programNames) {
		err = errors.Join(err, t.apply(Change{Path: path.Join(Dir, name), Removed: true}, ""))
	}
	return t.result, err
}
