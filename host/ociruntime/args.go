// Command lines of runc and crun, as far as vfix-runtime must understand them, and its own
// options.

package ociruntime

import (
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const specName = "config.json" // runtime-spec, bundle.md

// These take the place of a runtime's command if vfix-runtime is a hook.
const (
	HookCommand    = "hook"    // that does the work of a start
	startedCommand = "started" // that records it
)

// command is a command line of runc's kind, as far as it matters. Sources: runc's main.go,
// create.go, run.go and restore.go, which are read by urfave/cli and Go's package flag; crun's src/crun.c, create.c,
// run.c and restore.c, which are read by argp. Both take options of a command up to --; runc also behind its argument.
type command struct {
	// argv is what the real runtime gets, without its own name: everything but our options.
	argv []string
	// The values of our own options; "" if they are not given.
	runtime    string
	configFile string
	cacheDir   string
	failClosed bool
	startID    string
	fds        int    // how many descriptors it hands over besides those of $LISTEN_FDS
	source     string // of the configuration, where the NRI plugin knows better

	name      string // create, run, exec, …; "" for none
	bundle    string // of create, run and restore
	spec      string // crun's --config of create and run
	container string // that they make, and that start and delete are about
	help      bool   // the runtime prints something and starts nothing
	pid       int    // of the container's first process, if this is the hook
	root      string // --root: where the runtime keeps what it knows of containers
	log       string // --log
	logFormat string // --log-format
	debug     bool
}

// starts reports whether the command makes a container of a bundle; restore does of a
// checkpoint, whose mounts are those of config.json.
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
	helps // the runtime prints its help or version, and does nothing
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

// Options before the command, and those of create, run and restore.
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

// commandNames are the words that both runtimes know as commands.
var commandNames = strings.Fields("create run restore checkpoint delete events exec features help h init kill list mounts pause ps resume spec start state update")

// parseArgs reads the words behind the name of the program. Words that it does not know, it
// leaves to the real runtime to judge.
func parseArgs(args []string) command {
	c, strange := command{}, false
	for len(args) > 0 && args[0] != "--" && isOption(args[0]) {
		o, rest := option(args, ownOptions)
		if o.kind != unknown && strings.Contains(args[0], o.name) { // in full
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
		args = args[1:] // the value of an option that we do not know, or one more option
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

// off says that a value turns an option without one off, as package flag reads it.
func (g given) off() bool {
	on, err := strconv.ParseBool(g.value)
	return g.hasValue && err == nil && !on
}

func isOption(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// option reads the option at the head of args: -x, --name, --name=value, and -name, which runc takes; -xvalue and
// several letters and the beginning of a name, which crun takes.
func option(args []string, known map[string]arity) (g given, rest []string) {
	text, long := strings.CutPrefix(args[0][1:], "-")
	g.name, g.value, g.hasValue = strings.Cut(text, "=")
	g.kind, rest = known[g.name], args[1:]
	if g.kind == unknown && !long && known[text[:1]] == short {
		return given{text[:1], text[1:], true, valued}, rest
	}
	if g.kind == unknown && !long && len(text) > 1 && known[text[:1]] == plain { // several letters in one argument
		return given{name: text[:1], kind: plain}, append([]string{"-" + text[1:]}, rest...)
	}
	if g.kind == unknown && long {
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
		g.value, g.hasValue, rest = rest[0], true, rest[1:]
	}
	return g, rest
}

// own takes one of our own options; --container-config and --start-id are those of a hook that vfix-runtime has added.
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

// startOptions reads the options of what starts a container, and its argument: both runtimes refuse a second one,
// and then nothing starts. With an option that is not known, there may be its value.
func (c *command) startOptions(args []string) {
	var arguments []string
	strange, before := false, plain // an unknown option; the kind of what is before
	for len(args) > 0 && args[0] != "--" {
		if !isOption(args[0]) {
			arguments, args, before = append(arguments, args[0]), args[1:], plain
			continue
		}
		var g given
		g, args = option(args, startOptions)
		switch {
		case g.kind == unknown:
			strange = true
		case g.kind == helps:
			c.help = c.help || !g.off() && before != unknown // its value, perhaps
		case g.name == "bundle" || g.name == "b":
			c.bundle = g.value
		case g.name == "config" || g.name == "f":
			c.spec = g.value
		case g.name == "preserve-fds":
			c.fds = count(g.value)
		}
		before = g.kind
	}
	if len(args) > 0 {
		arguments = append(arguments, args[1:]...)
	}
	if len(arguments) == 1 || strange && len(arguments) > 0 {
		c.container = arguments[len(arguments)-1]
	}
}

// count reads a number of descriptors. Runtimes do not agree on what else than plain digits means: it counts as all.
func count(text string) int {
	n, err := strconv.Atoi(text)
	if text != "" && (err != nil || n < 0 || strconv.Itoa(n) != text) {
		return math.MaxInt16
	}
	return n
}

// bundleDir is the folder of the bundle: the working directory by default.
func (c *command) bundleDir() (string, error) {
	if c.bundle == "" {
		return filepath.Abs(".")
	}
	return filepath.Abs(c.bundle)
}

// specPath is the file that describes the container: config.json in the bundle, unless crun is given
// another one, whose name is not part of the bundle then (crun, src/create.c).
func (c *command) specPath(bundle string) (string, error) {
	if c.spec == "" || c.spec == specName {
		return filepath.Join(bundle, specName), nil
	}
	return filepath.Abs(c.spec)
}
