// The verb scan: its options, and call sites as findings.

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/cmd/vfix/tables"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/batch"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/quote"
)

// ScanOptions are the choices of vfix scan.
type ScanOptions struct {
	workOptions
	batchOptions
	strict bool
	output string
	here   place
}

func newScanCommand(out *output, e engine) *cobra.Command {
	var opts ScanOptions
	cmd := &cobra.Command{
		Use:   "scan [options] SOURCE... | --from-file LIST",
		Short: "Show which files call the vsyscall page and what vfix would do",
		Long: `Examine every 64-bit ELF file of an image, a container, a root filesystem or an
archive for calls to the vsyscall page, and report what vfix would do about
each. Nothing is changed. --explain also names the system calls that a patched
file adds, for seccomp filters.

If SOURCE is one dynamic program, or a directory of programs without their
loader, the loader and libraries that they use are also examined. vfix finds
them as the loader does, in the root filesystem that contains the program, or in
--root. Libraries opened at run time (dlopen, as for NSS and plugins) are not
included.

The last lines give the verdict, AFFECTED, NOT AFFECTED or INCOMPLETE, and the
command that fixes the source.

With --from-file, many images are scanned in one run and a table of the results
is printed: see 'vfix help lists'.

Hazards are other reasons for failures of old images on new hosts, such as a
JDK that ignores its memory limit: see 'vfix help other-causes'. With --fix,
scan shows the changes of a rebuild with the same option.

SOURCE is an image name, a file, a directory, or - for stdin: see 'vfix help
sources'.`,
		Example: `  vfix scan redis:2.8.22              an image
  vfix scan -                         stdin: docker save app:1 | vfix scan -
  vfix scan container:web-1           a container, with its own changes
  vfix scan dir:/                     the running system
  vfix scan --explain ./libc.so.6     the machine code, before and after
  vfix scan --format json app.tar     output for programs
  vfix scan --from-file list          many images: 'vfix help lists'`,
		Annotations: exits(`  0  NOT AFFECTED: all of SOURCE was examined, and no live or unknown call site
     is left uncovered
  3  AFFECTED: such call sites exist, and no fallback in SOURCE covers them; or,
     with --strict, SOURCE has hazards
  4  INCOMPLETE: part of SOURCE was not examined
  1  a SOURCE could not be read (the others were examined)   2  usage error`),
		Args: func(cmd *cobra.Command, args []string) error {
			if opts.fromFile != "" {
				return nil // the check of a list has a better word for it
			}
			return sourceArgs("scan", "SOURCE", -1)(cmd, args)
		},
		ValidArgsFunction: completeNames(e, namedContainers),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.batchOptions.check(cmd, args); err != nil {
				return err
			}
			return runScan(cmd.Context(), opts, args, out, e)
		},
	}
	opts.batchOptions.add(cmd, "scan", "SOURCE or SOURCE DEST (DEST is ignored)")
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "exit with status 3 also if SOURCE has hazards")
	cmd.Flags().StringVar(&opts.read.Root, "root", "", "find the libraries of a program in this `DIR` (default: the root filesystem that the program lies in)")
	cmd.Flags().StringVarP(&opts.output, "output", "o", "", "write the result to this `FILE` instead of stdout, whole or not at all")
	opts.addFix(cmd)
	opts.addExplain(cmd)
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	opts.addJobs(cmd, "files (with --from-file: images)")
	return cmd
}

func runScan(ctx context.Context, opts ScanOptions, args []string, out *output, e engine) error {
	if err := opts.begin(ctx, "scan", out); err != nil {
		return err
	}
	if opts.read.Root != "" {
		if fi, err := os.Stat(opts.read.Root); err != nil || !fi.IsDir() {
			return usagef("scan", "--root %s: not a directory", opts.read.Root)
		}
	}
	return out.into(opts.output, func() error {
		if opts.fromFile != "" {
			return scanAll(ctx, opts, out, e)
		}
		return scanEach(ctx, opts, args, out, e)
	})
}

func scanEach(ctx context.Context, opts ScanOptions, args []string, out *output, e engine) error {
	var all []*contents.Findings
	var errs []error
	for _, source := range args {
		f, err := e.scan(ctx, source, opts.read)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, f.All()...)
	}
	out.EndProgress()
	if len(all) > 0 {
		opts.here = placeFor(ctx, e, opts.read.Media, all)
		if err := out.scanned(opts, all); err != nil {
			errs = append(errs, err)
		}
	}
	for _, f := range all {
		errs = append(errs, incomplete(f, scanIt))
		var found []*findingsError
		if n := len(f.Hazards); n > 0 && opts.strict {
			found = append(found, finding(seeHazards, "%s: %s", f.Name(), screen.Count(n, "hazard")))
		}
		if n := f.UncoveredSites(); n > 0 {
			var commands []string
			for _, c := range opts.here.fixes(f) {
				commands = append(commands, quoted(c))
			}
			found = append(found, finding("run "+strings.Join(commands, " or "), "%s: %s", f.Name(), screen.Count(n, tables.OpenSite)))
		}
		for _, one := range found {
			one.printed = opts.format == "table" && opts.output == ""
			errs = append(errs, one)
		}
	}
	return errors.Join(errs...)
}

// seeHazards is the hint for hazards.
const seeHazards = "see 'vfix help other-causes'"

// quoted puts a command into quotation marks, unless it contains some: copied with them, it would be another
// command.
func quoted(command string) string {
	if strings.Contains(command, "'") {
		return command
	}
	return "'" + command + "'"
}

// place has the facts about a machine that decide which command works on it.
type place struct {
	noEngine bool // no container engine answers: an image needs another destination
	noSquash bool // no program here writes a squashfs
}

// placeFor finds the facts that the commands for some findings depend on.
func placeFor(ctx context.Context, e engine, o media.Options, all []*contents.Findings) (p place) {
	needs := slices.ContainsFunc(all, func(f *contents.Findings) bool {
		return f.Affected() && isImage(f) && !strings.HasPrefix(f.Source, string(media.Daemon)+":") && !strings.HasPrefix(f.Source, images.ContainerPrefix)
	})
	if needs && e.answers != nil {
		ctx, cancel := context.WithTimeout(ctx, engineLimit)
		defer cancel()
		p.noEngine = !e.answers(ctx, o)
	}
	p.noSquash = !sources.WritesSquash()
	return p
}

// engineLimit is how long vfix waits for an engine before it proposes a command that needs none.
const engineLimit = 3 * time.Second

func isImage(f *contents.Findings) bool {
	return f.Digest != "" || strings.HasPrefix(f.Source, string(media.SIF)+":")
}

// output is the destination that a rebuild needs here, as an option; "" for the default, the local engine.
func (p place) output(source string) string {
	ref, err := media.ParseRef(source)
	if err != nil || !p.noEngine || ref.Transport == media.Daemon {
		return ""
	}
	switch ref.Transport {
	case media.OCILayout:
		return " -o oci:fixed"
	case media.DockerArchive:
		return " -o docker-archive:fixed.tar"
	case media.SIF:
		if !p.noSquash {
			return " -o sif:fixed.sif"
		}
	}
	return " -o oci-archive:fixed.tar"
}

// explain is the command that shows the code around the call sites of a source.
func explain(source string) string {
	command := "vfix scan --explain " + quote.Path(source)
	if sources.ReadOnce(source) {
		return "... | " + command
	}
	return command
}

// fixes are the commands that fix what a scan found, as a shell reads them; if nothing can be fixed, the
// one that shows why.
func (p place) fixes(f *contents.Findings) []string {
	fix := fixNames(f)
	if fix != "" {
		fix = "--fix " + fix + " "
	}
	switch {
	case !f.Affected():
		return []string{explain(f.Source)}
	case strings.HasPrefix(f.Source, images.ContainerPrefix):
		return []string{"vfix hotfix " + fix + quote.Path(f.Source)}
	case sources.ReadOnce(f.Source) && isImage(f):
		return []string{"... | vfix rebuild " + fix + quote.Path(f.Source) + p.output(f.Source)}
	case sources.ReadOnce(f.Source) && fix == "":
		return []string{"vfix patch -i FILE", "vfix patch -o COPY FILE"}
	case isImage(f):
		return []string{"vfix rebuild " + fix + quote.Path(f.Source) + p.output(f.Source)}
	}
	path := strings.TrimPrefix(f.Source, string(media.Dir)+":")
	if fix != "" {
		st, err := os.Stat(path)
		switch {
		case err == nil && st.IsDir():
			path = "dir:" + path
		case f.Files[0].Path == path: // no tarball: the file alone
			path = "dir:ROOT"
		}
		return []string{"vfix rebuild " + fix + quote.Path(path) + " -o dir:COPY"}
	}
	if f.Loads != nil {
		var all []string
		for i := range f.Files {
			name := f.Files[i].Path
			if strings.HasPrefix(f.Source, string(media.Dir)+":") && !filepath.IsAbs(name) { // one of the directory, no library from elsewhere
				name = path
			}
			if !f.Files[i].Plan.Empty() {
				all = append(all, quote.Path(name))
			}
		}
		if all = slices.Compact(all); len(all) > 1 {
			return []string{"vfix patch -i " + strings.Join(all, " ")}
		}
		path = all[0]
	} else {
		path = quote.Path(path)
	}
	return []string{"vfix patch -i " + path, "vfix patch -o COPY " + path}
}

// scanAll scans a list of images.
func scanAll(ctx context.Context, opts ScanOptions, out *output, e engine) error {
	if opts.explain {
		return usagef("scan", "--explain shows call sites, which --from-file only counts: omit --from-file")
	}
	done, err := runBatch(ctx, opts.batchOptions, opts.printOptions,
		batch.Options{RebuildOptions: images.RebuildOptions{ScanOptions: opts.read, Version: buildVersion().Version}, AtOnce: opts.read.Jobs}, e.scanAll, out, e)
	if err == nil {
		err = failures(done)
	}
	if err != nil {
		return err
	}
	errs := []error{unreadInList(done)}
	if n := done.Hazards; n > 0 && opts.strict {
		errs = append(errs, finding(seeHazards, "hazards: %d of %s", n, screen.Count(done.All(), "image")))
	}
	if n := done.Of[outcome.Affected]; n > 0 {
		errs = append(errs, finding("run 'vfix rebuild --from-file' with the same list", "affected: %d of %s", n, screen.Count(done.All(), "image")))
	}
	return errors.Join(errs...)
}
