// The verb hotfix: its options, and which mounts an engine cannot be given.

package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/hotfix"
	"vfix.dev/vfix/images/mountopts"
)

// HotfixOptions are the choices of vfix hotfix.
type HotfixOptions struct {
	workOptions
	engine string
	dir    string
	apply  bool
	list   bool
	prune  bool
}

// everyEngine is the value of --for that means all of them.
const everyEngine = "all"

// engines are those that the options are printed for.
func (o *HotfixOptions) engines() []mountopts.Engine {
	if o.engine == everyEngine {
		return mountopts.Engines
	}
	return []mountopts.Engine{mountopts.Engine(o.engine)}
}

func newHotfixCommand(out *output, e engine) *cobra.Command {
	var opts HotfixOptions
	cmd := &cobra.Command{
		Use:   "hotfix [options] IMAGE|CONTAINER",
		Short: "Fix one container now with patched files mounted over it",
		Long: `Write patched copies of the files that call the vsyscall page to a directory on
this machine, and print the options that mount them, read-only, over the
originals: for docker, podman, compose and a Kubernetes pod. The image is not
changed, and nothing is installed.

A name is a container if the engine has one of that name, otherwise an image; to
be explicit use container:NAME or the prefixes of 'vfix help sources'. The
container's own changes are also examined, and files covered by its volumes are
not touched. Each copy is named by its content and has the owner, mode, time and
extended attributes of the original; existing copies are reused.

The printed options work on a machine that has the copies. For Kubernetes that
is every node the pod may run on: run the same command there. (A libc is larger
than the 1 MiB that a ConfigMap holds.) For compose and Kubernetes, the output
is a fragment to merge, with docker compose -f compose.yaml -f FRAGMENT up or
kubectl patch.

--apply recreates a stopped docker container with the same image, configuration,
volumes (also unnamed ones), networks, labels and name. Changes in its own layer
are saved in an image. The old container is kept under another name, and the
commands to restore it are printed. If anything fails, it is left unchanged.
Links of other containers keep pointing to the old one.

A mounted file cannot be replaced from inside: a package manager that upgrades
libc in the container fails with "device or resource busy". vfix-runtime does
not have this limitation: see 'vfix install --help'.

With --fix java-cgroups, JDKs are also fixed: see 'vfix help java'.

--list shows the copies and the containers and processes that use them; --prune
removes the unused ones that are more than a minute old.`,
		Example: `  vfix hotfix redis:2.8.22                      the options for all four
  vfix hotfix --for docker redis:2.8.22         a docker run command to complete
  vfix hotfix --for compose db > vfix.yaml      for a container named db
  vfix hotfix --apply db                        recreate it after stopping it
  vfix hotfix --prune                           remove unused copies`,
		Annotations: exits(`  0  success, or nothing to do: then stdout is empty
  3  success, but live or unknown call sites cannot be patched, or the options
     of the chosen engine cannot express a file's name
  4  success, but part of it could not be examined
  1  error: a container could not be recreated and is unchanged
  2  usage error`),
		Args: func(cmd *cobra.Command, args []string) error {
			if opts.list || opts.prune {
				return noArguments(cmd, args)
			}
			return sourceArgs("hotfix", "IMAGE or CONTAINER", 1)(cmd, args)
		},
		ValidArgsFunction: completeNames(e, allContainers),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.apply && cmd.Flags().Changed("for") {
				return usagef("hotfix", "--apply recreates the container and --for prints options: use one of them")
			}
			if err := opts.begin("hotfix", out); err != nil {
				return err
			}
			if opts.list || opts.prune {
				return runHotfixCopies(cmd.Context(), opts, out, e)
			}
			return runHotfix(cmd.Context(), opts, args[0], out, e)
		},
	}
	f := cmd.Flags()
	f.StringVar(&opts.engine, "for", everyEngine, "print options for this `ENGINE`: docker, podman, compose, kubernetes, or all")
	choices(cmd, "for", append([]string{everyEngine}, texts(mountopts.Engines)...))
	f.StringVarP(&opts.dir, "output", "o", hotfix.HotfixDir, "keep the patched copies in this `DIR`")
	f.BoolVar(&opts.apply, "apply", false, "recreate a stopped docker container with the mounts")
	f.BoolVar(&opts.list, "list", false, "list the patched copies and what uses them")
	f.BoolVar(&opts.prune, "prune", false, "remove the patched copies that nothing uses")
	opts.addFix(cmd)
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	opts.addJobs(cmd)
	return cmd
}

func runHotfix(ctx context.Context, opts HotfixOptions, source string, out *output, e engine) error {
	done, err := e.hotfix(ctx, source, hotfix.Options{ScanOptions: opts.read, Dir: opts.dir, Apply: opts.apply})
	if err != nil {
		return err
	}
	if err := out.hotfixed(opts, source, done); err != nil {
		return err
	}
	if err := errors.Join(incompleteInAll(done.Findings), leftOver(source, done.Findings)); err != nil {
		return err
	}
	if n := len(unsayable(opts, done)); n > 0 && opts.engine != everyEngine {
		return finding("build an image with 'vfix rebuild', or fix the node with 'vfix install'",
			"%s cannot be mounted with these options", screen.Count(n, "file"))
	}
	return nil
}

// runHotfixCopies lists or removes what earlier hotfixes left.
func runHotfixCopies(ctx context.Context, opts HotfixOptions, out *output, e engine) error {
	switch {
	case opts.list && opts.prune:
		return usagef("hotfix", "--list and --prune: use one of them")
	case opts.apply:
		return usagef("hotfix", "--apply does not work with --list or --prune")
	case opts.json():
		return usagef("hotfix", "--list and --prune print a table only")
	}
	act := e.hotfixCopies
	if opts.prune {
		act = e.pruneHotfixCopies
	}
	all, answered, err := act(ctx, opts.dir, opts.read.Media)
	if err != nil {
		return err
	}
	if opts.list && !answered && len(all) > 0 {
		out.Warn("no docker or podman daemon answers: stopped containers may use copies that are listed as unused")
	}
	out.hotfixCopies(opts, all)
	return nil
}

// unsayable are lines that say which mount cannot be written for an engine, and why.
func unsayable(opts HotfixOptions, h *hotfix.Hotfixed) []string {
	if opts.apply {
		return nil
	}
	var all []string
	for _, e := range opts.engines() {
		for _, m := range h.Mounts {
			if why := mountopts.Unsayable(e, m); why != "" {
				all = append(all, string(e)+": "+m.Target+": omitted: "+why)
			}
		}
	}
	return slices.Compact(all)
}
