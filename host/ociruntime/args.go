// Command lines of runc and crun, as far as vfix-runtime must understand them, and its own options.

package ociruntime

import (
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const specName = "config.json" // runtime-spec, bundle.md

// The commands of vfix-runtime as a hook, in place of a runtime's command.
const (
	HookCommand    = "hook"    // does the work of a start
	startedCommand = "started" // records the start
)

// command is a command line of runc or crun, as far as it matters here. Sources: runc's main.go, create.go, run.go
// and restore.go, which use urfave/cli and Go's package flag; crun's src/crun.c, create.c, run.c and restore.c,
// which use argp. Both accept options of a command up to --; runc also after its argument.
type command struct {
	// argv is the command line for the real runtime, without its name: everything except our options.
	argv []string
	// The values of our own options, "" if not given.
	runtime    string
	configFile string
	cacheDir   string
	failClosed bool
	startID    string
	fds        int    // the number of descriptors for the container besides those of $LISTEN_FDS
	source     string // of the configuration, if the NRI plugin has another one

	name      string // create, run, exec, …; "" for none
	bundle    string // of create, run and restore
	spec      string // crun's --config of create and run
	container string // the container that they create, start or delete
	help      bool   // the runtime only prints something
	pid       int    // of the container's first process, if this is the hook
	root      string // --root: the runtime's state directory
	log       string // --log
	logFormat string // --log-format
	debug     bool
}

// starts reports whether the command makes a container from a bundle. restore makes it from a checkpoint, but with
// the mounts of config.json.
func (c *command) starts() bool {
	return makes(c.name) && !c.help && c.container != ""
}

func makes(command string) bool {
	return command == "create" || command == "run" || command == "restore"
}

type arity int

const (
	unknown arity = iota
	plain
	valued
	helps // the runtime prints its help or version and exits
	short // a letter with a value, which may be in the same argument
)

func options(all map[arity]string) map[string]arity {
	by := map[string]arity{}
	for kind, names := range all {
		for name := range strings.FieldsSeq(names) {
			by[name] = kind
		}
	}
	return by
}

// The options before the command, and the options of create, run and restore.
var (
	globalOptions = options(map[arity]string{
		valued: "log log-format log-level root criu rootless cgroup-manager handler",
		plain:  "debug systemd-cgroup", helps: "help h ? usage version v V",
	})
	ownOptions = options(map[arity]string{
		valued: "runtime vfix-config cache-dir policy-source container-config start-id", plain: "fail-closed",
	})
	startOptions = options(map[arity]string{
		short: "b f", helps: "help h ? usage",
		valued: "bundle console-socket pid-file pidfd-socket preserve-fds config image-path work-path parent-path " +
			"manage-cgroups-mode network-lock empty-ns status-fd lsm-profile lsm-mount-context",
		plain: "no-pivot no-new-keyring no-subreaper detach d keep tcp-established ext-unix-sk shell-job file-locks " +
			"auto-dedup lazy-pages tcp-close ext-masters",
	})
)

// commandNames are the commands of both runtimes.
var commandNames = strings.Fields("create run restore checkpoint delete events exec features help h init kill list mounts pause ps resume spec start state update")

// parseArgs parses the command line after the program's name. It passes unknown words to the real runtime.
func parseArgs(args []string) command {
	c, strange := command{}, false
	for len(args) > 0 && args[0] != "--" && isOption(args[0]) {
		o, rest := option(args, ownOptions)
		if o.kind != unknown && strings.Contains(args[0], o.name) { // its full name
			c.own(o)
			args = rest
			continue
		}
		o, rest = option(args, globalOptions)
		c.global(o)
		strange = strange || o.kind == unknown && !o.hasValue
		c.argv = append(c.argv, args[:len(args)-len(rest)]...)
		args = rest
	}
	c.argv = append(c.argv, args...)
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	for strange && len(args) > 1 && !slices.Contains(commandNames, args[0]) {
		args = args[1:] // the value of an unknown option, or another option
	}
	if len(args) > 0 {
		switch c.name = args[0]; {
		case makes(c.name):
			c.startOptions(args[1:])
		case (c.name == "start" || c.name == "delete") && len(args) > 1:
			c.container = args[len(args)-1]
		}
	}
	return c
}

// given is an option of a command line.
type given struct {
	name, value string
	hasValue    bool
	kind        arity
}

// off reports whether a value sets a flag to false, as package flag parses it.
func (g given) off() bool {
	on, err := strconv.ParseBool(g.value)
	return err == nil && !on
}

func isOption(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// option parses the option at args[0]: -x, --name, --name=value; -name, which runc accepts; -xvalue, several
// letters and abbreviated names, which crun accepts.
func option(args []string, known map[string]arity) (g given, rest []string) {
	text, long := strings.CutPrefix(args[0][1:], "-")
	g.name, g.value, g.hasValue = strings.Cut(text, "=")
	g.kind, rest = known[g.name], args[1:]
	if g.kind == unknown && !long && known[text[:1]] == short {
		return given{name: text[:1], value: text[1:], kind: valued}, rest
	}
	if g.kind == unknown && !long && known[text[:1]] == plain { // several letters in one argument
		return given{kind: plain}, append([]string{"-" + text[1:]}, rest...)
	}
	if long {
		var whole []string
		for name := range known {
			if strings.HasPrefix(name, g.name) {
				whole = append(whole, name)
			}
		}
		if len(whole) == 1 {
			g.name, g.kind = whole[0], known[whole[0]]
		}
	}
	if (g.kind == valued || g.kind == short) && !g.hasValue && len(rest) > 0 {
		g.value, rest = rest[0], rest[1:]
	}
	return g, rest
}

// own sets one of our own options. vfix-runtime gives --container-config and --start-id to the hook that it adds.
func (c *command) own(g given) {
	to := map[string]*string{
		"runtime": &c.runtime, "vfix-config": &c.configFile, "cache-dir": &c.cacheDir, "container-config": &c.spec,
		"start-id": &c.startID, "policy-source": &c.source,
	}[g.name]
	if to == nil {
		c.failClosed = c.failClosed || !g.off()
		return
	}
	*to = g.value
}

func (c *command) global(g given) {
	switch {
	case g.kind == helps:
		c.help = c.help || !g.off()
	case g.name == "root":
		c.root = g.value
	case g.name == "log":
		c.log = g.value
	case g.name == "log-format":
		c.logFormat = g.value
	case g.name == "debug":
		c.debug = !g.off()
	}
}

// startOptions parses the options and the argument of a command that starts a container: both runtimes refuse a
// second argument and start nothing. After an unknown option, an argument may be its value.
func (c *command) startOptions(args []string) {
	var arguments []string
	strange, after := false, false // an unknown option was seen; the previous argument was one
	for len(args) > 0 && args[0] != "--" {
		if !isOption(args[0]) {
			arguments, args, after = append(arguments, args[0]), args[1:], false
			continue
		}
		var g given
		g, args = option(args, startOptions)
		switch {
		case g.kind == unknown:
			strange = true
		case g.kind == helps:
			c.help = c.help || !g.off() && !after // perhaps its value
		case g.name == "bundle" || g.name == "b":
			c.bundle = g.value
		case g.name == "config" || g.name == "f":
			c.spec = g.value
		case g.name == "preserve-fds":
			c.fds = count(g.value)
		}
		after = g.kind == unknown
	}
	if len(args) > 0 {
		arguments = append(arguments, args[1:]...)
	}
	if n := len(arguments); n == 1 || strange && n > 1 {
		c.container = arguments[n-1]
	}
}

// count parses a number of descriptors. Runtimes differ in text other than plain digits, so it counts as all
// descriptors.
func count(text string) int {
	n, _ := strconv.Atoi(text)
	if text != "" && (n < 0 || strconv.Itoa(n) != text) {
		return math.MaxInt16
	}
	return n
}

// bundleDir returns the directory of the bundle, by default the working directory.
func (c *command) bundleDir() (string, error) {
	if c.bundle == "" {
		return filepath.Abs(".")
	}
	return filepath.Abs(c.bundle)
}

// specPath returns the path of config.json: in the bundle, unless crun has another one, whose path is not relative
// to the bundle (crun, src/create.c).
func (c *command) specPath(bundle string) (string, error) {
	if c.spec == "" || c.spec == specName {
		return filepath.Join(bundle, specName), nil
	}
	return filepath.Abs(c.spec)
}
