// Install and Uninstall: which files change, in which order, and what to type next.

// Package install makes vfix-runtime known to a container engine. It writes two programs and one file of the engine's
// configuration, and Uninstall removes exactly these. Where an engine reads no directory of such files, the result has
// the lines to add by hand. Nothing is restarted.
package install

import (
	"cmp"
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
	Blocks   []Block  `json:"blocks"`   // for files that only a person changes
	Users    []string `json:"users"`    // Uninstall: containers that need the runtime
	Stays    bool     `json:"stays"`    // Uninstall: the runtime stays until it is run again
	Commands []string `json:"commands"` // that make the engines read their configuration
	Try      string   `json:"try"`      // Install: a command that runs one container
}

// Change is one file that was written or removed.
type Change struct {
	Path    string `json:"path"`
	Removed bool   `json:"removed"`
	Size    int    `json:"size"` // bytes, afterwards
	Text    string `json:"text"` // the content of a configuration file; "" for a program
}

// Block is text to add to a file, or to remove from it.
type Block struct {
	Path   string `json:"path"`
	Remove bool   `json:"remove"`
	Text   string `json:"text"`
}

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
	config, err := e.plan(t, e, use)
	if err != nil {
		return nil, err
	}
	defer syscall.Umask(syscall.Umask(0o022)) // engines of ordinary users must be able to read it all
	r := &Result{Try: e.try}
	for _, name := range programNames {
		if err := t.apply(program(name, o.Programs[name]), "", r); err != nil {
			return nil, err
		}
	}
	return r, t.apply(config, e.reload, r) // the last one: the program that it names must exist
}

// Uninstall removes what Install wrote, for one engine or for all. The runtime stays as long as containers need it. It
// also stays if it was the default: the engine goes on using it until it is restarted.
func Uninstall(o Options) (*Result, error) {
	t, err := openTree(o)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	needed := false // by an engine that is not asked to give it up
	usual := ""     // podman and CRI-O have one file in common
	if at := slices.Index(Engines(), o.Engine); at >= 0 {
		usual = engines[at].config
	}
	for _, e := range engines {
		asked := o.Engine == "" || e.config == usual
		if e.name == o.Engine {
			e.config = cmp.Or(o.Config, e.config)
		}
		config, err := e.plan(t, e, unused)
		if err != nil {
			return nil, err
		}
		if !t.differs(config) {
			continue
		}
		if !asked {
			needed = true
			continue
		}
		users, err := t.users(e)
		if err != nil {
			return nil, err
		}
		r.Users = append(r.Users, users...)
		r.Stays = r.Stays || len(users) > 0 || config.byHand || config.firstStep
		if len(users) == 0 || config.firstStep {
			if err := t.apply(config, e.restart, r); err != nil {
				return nil, err
			}
		}
	}
	if needed || r.Stays {
		return r, nil
	}
	for _, name := range slices.Backward(programNames) {
		if err := t.apply(program(name, nil), "", r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// program is one of the programs; without content it is removed.
func program(name string, content []byte) file {
	return file{path: path.Join(Dir, name), data: content, program: true}
}
