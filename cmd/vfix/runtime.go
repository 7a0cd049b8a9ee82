// vfix as an OCI runtime: the verb runtime, the link vfix-runtime, and the check of its configuration.

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/shim"
)

// runtimeName is the link under which vfix is an OCI runtime; runtimeVerb does the same.
const (
	runtimeName = "vfix-runtime"
	runtimeVerb = "runtime"
)

// runtimeArgs returns the arguments after the name of the runtime; false if vfix is called by another name,
// or with an option for its own help. It is called first of all, because it runs at each start of a container.
func runtimeArgs(args []string) ([]string, bool) {
	switch {
	case len(args) == 0:
		return nil, false
	case filepath.Base(args[0]) == runtimeName:
		return args[1:], true
	case len(args) < 2 || args[1] != runtimeVerb:
		return nil, false
	case len(args) == 3 && (args[2] == "--help" || args[2] == "-h"), len(args) > 2 && (args[2] == statusVerb || args[2] == checkVerb):
		return nil, false
	}
	return args[2:], true
}

// runRuntime returns only if the real runtime was not executed.
func runRuntime(args []string, stderr io.Writer) int {
	o := runtimeOptions()
	o.Stdin, o.Stderr = os.Stdin, stderr
	err := ociruntime.Main(args, o)
	if err == nil {
		return statusDone
	}
	newOutput(io.Discard, stderr).fail(hinterr.With(err, "%s", ociruntime.Hint(err)))
	return statusError
}

// runtimeOptions are those of the program vfix-runtime, with which this one shares the cache.
func runtimeOptions() ociruntime.Options {
	return ociruntime.Options{
		Maker:   func() string { return buildVersion().Version + " " + string(shim.Magic()) },
		Version: buildVersion().Version,
		Library: shim.Library, Library32: shim.Library32, Trace: shim.Trace,
	}
}

func newRuntimeCommand(out *output, e engine) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runtime [options] RUNTIME-COMMAND...",
		Short: "Run as an OCI runtime that patches containers at start",
		Long: `Accept the command line of runc, so that an engine can use vfix instead of runc.
The program vfix-runtime, which 'vfix install' writes, does the same and starts
faster. On create and run it finds the files in the bundle's root filesystem
that call the vsyscall page and puts patched copies in their places. Then, and
for every other command, it executes the real runtime. Images are not changed.

  a writable root of the container's own   the files in it are replaced (for an
      overlay in its upper layer), so a package manager can replace them again
  any other root   the copies are mounted read-only over the originals through
      config.json

Copies and the results for each layer are kept in a cache: see 'vfix cache'.
Files in the container's volumes are not touched. Owner, mode, extended
attributes and times of a copy are those of the original.

Options of vfix, before those of the runtime, which does not see them:
  --runtime NAME       the real runtime: a path, or a name in PATH
                       (default: runc, else crun)
  --fail-closed        do not start a container with a file that could not be
                       examined, or a live or unknown call site that remains;
                       otherwise it starts, with a line in the log. No option
                       turns off fail_closed of the configuration
  --cache-dir DIR      the cache (default /var/lib/vfix)
  --vfix-config FILE   the configuration (default /etc/vfix/runtime.json), in
                       JSON: runtime, fail_closed, cache_dir, cache_size in
                       bytes, opt_in (dev.vfix.enable=true is then needed),
                       fallback and fix (without an annotation), allow_disable
                       (dev.vfix.enable=false and dev.vfix.fix=none, even with
                       fail_closed), trusted_hooks (paths of OCI hooks, runtimes
                       and seccomp agents that bring no programs into a
                       container, separated by commas),
                       trusted_filesystems (kinds of file systems, such as nfs4
                       or virtiofs, whose servers are trusted), immutable_roots
                       (directories, below which nobody changes root
                       filesystems: those that containers cannot write to are
                       examined once), limits of one start: names, copy_bytes,
                       seconds, memory_bytes;
                       record: a file (default /var/log/vfix/starts.jsonl),
                       journald or none; metrics: a file FILE.prom of counters
                       for the textfile collector of Prometheus' node_exporter.
                       After an error in it, the last good configuration stays
                       in force, and without one fail_closed

Annotations of a container:
  dev.vfix.enable=false      leave it as it is, unless fail_closed is set;
                             =true: patch it, if opt_in is set
  dev.vfix.fallback=always   mount libvfix.so and an ld.so.preload for it, for
                             code that is added later; =never: do not, unless
                             fail_closed is set
  dev.vfix.fix=java-cgroups  also fix this, as 'vfix rebuild --fix' does;
                             =none: do not, unless fail_closed is set

Each start is recorded: 'vfix runtime status' shows the last ones. Files are
examined by a separate process, which can only read and write the files that it
is given. Messages go to the file of the runtime's --log and --log-format, or to
stderr.`,
		Example: `  vfix runtime --runtime crun run -b /tmp/bundle c1    by hand
  vfix runtime --fail-closed run -b /tmp/bundle c1     refuse if not patched
  vfix runtime status                                  show the last starts
  vfix runtime check                                   check the configuration`,
		Annotations: exits(`  that of the real runtime, which replaces vfix; otherwise
  1  it could not be executed, or --fail-closed and something was not patched`),
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
				return cmd.Help()
			}
			// Not reached from the command line: main calls runtimeArgs first.
			if status := e.runtime(args, out.Stderr); status != statusDone {
				return errors.New("the runtime was not executed")
			}
			return nil
		},
	}
	cmd.AddCommand(newStatusCommand(out, e), newRuntimeCheckCommand(out))
	return cmd
}

// checkVerb is a word after vfix runtime that is not a command of a runtime.
const checkVerb = "check"

func newRuntimeCheckCommand(out *output) *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration of vfix-runtime",
		Long: `Read a configuration of vfix-runtime or of the plugin of 'vfix nri', and report
the first error with its line and column. The default FILE is
/etc/vfix/runtime.json. For this file, also report which configuration is in
force: after an error the last good one, and without one fail_closed.

Check a file before you replace the one in use. Nothing is changed.`,
		Example: `  vfix runtime check
  vfix runtime check new.json && mv new.json /etc/vfix/runtime.json`,
		Annotations: exits(`  0  valid   3  not valid, no container would start, or another configuration is in force
  1  error: FILE does not exist   2  usage error`),
		Args: atMost(1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error { return checkPolicy(strings.Join(args, ""), out) },
	}
}

func checkPolicy(file string, out *output) error {
	if file != "" {
		c, _, err := policy.Read(file)
		if errors.Is(err, fs.ErrNotExist) {
			return hinterr.With(err, "name a file that exists")
		}
		return validity(file, "valid", c, err, out)
	}
	p := policy.Load("", false, "")
	what := "valid, and in force"
	if p.Source == starts.Defaults {
		what = "not there: the defaults are in force"
	}
	if p.FailClosed {
		what += ", with fail_closed"
	}
	err := p.Err
	if why := p.Why(); why != "" {
		err = hinterr.With(errors.New(why), "%s", hinterr.HintOf(p.Err))
	}
	return validity(p.Path, what, p.Config, err, out)
}

func validity(file, what string, c policy.Config, err error, out *output) error {
	if all := c.RefusesAll(); err == nil && all != nil {
		err = fmt.Errorf("%s: %w", file, all)
	}
	if err != nil {
		return finding(hinterr.HintOf(err), "%v", err)
	}
	out.Result(file + ": " + what)
	return nil
}
