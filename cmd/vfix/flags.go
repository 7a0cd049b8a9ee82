// The options that several verbs share. Each verb adds those that it has, so that one
// that it has not is a usage error there.

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"vfix.dev/vfix/cmd/vfix/garbage"
	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/nearest"
	"vfix.dev/vfix/internal/progress"
	"vfix.dev/vfix/internal/quote"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
)

// printOptions are how results and progress are shown.
type printOptions struct {
	format   string
	progress string
	quiet    bool
	color    string
	debug    bool
	explain  bool
	special  []string // forms that this verb has beside formats
}

const sarifFormat = "sarif"

var (
	formats       = []string{"table", "json"}
	progressModes = []string{"auto", "plain", "tty", "quiet"}
)

// add declares --format and --progress on cmd.
func (p *printOptions) add(cmd *cobra.Command) {
	p.addFormat(cmd)
	cmd.Flags().StringVar(&p.progress, "progress", "auto",
		"show progress on stderr in this `MODE`: tty (bars), plain (lines), quiet (only warnings and errors), or auto: tty on a terminal, otherwise plain")
	words(cmd, "progress", progressModes)
	cmd.Flags().BoolVarP(&p.quiet, "quiet", "q", false, "same as --progress quiet")
	cmd.Flags().BoolVarP(&p.debug, debugFlag, "v", false, "also print what is looked up where, and the requests to registries")
}

func (p *printOptions) addFormat(cmd *cobra.Command) {
	usage := "print results in this `FORMAT`: table, or json (see 'vfix help json')"
	if slices.Contains(p.special, sarifFormat) {
		usage = "print results in this `FORMAT`: table, json (see 'vfix help json'), or sarif (SARIF 2.1.0)"
	}
	cmd.Flags().StringVar(&p.format, "format", "table", usage)
	words(cmd, "format", p.formats())
	cmd.Flags().StringVar(&p.color, colorFlag, "auto", "use colors `WHEN`: auto (on a terminal, unless NO_COLOR is set), always or never")
	words(cmd, colorFlag, screen.Colors)
}

// The options that set the output itself, before a verb begins: see setOutput.
const (
	colorFlag = "color"
	debugFlag = "debug"
)

// setOutput does what --color and --debug say, for each verb that has them.
func setOutput(cmd *cobra.Command, out *output) error {
	if f := cmd.Flags().Lookup(colorFlag); f != nil {
		if err := oneOf(verbOf(cmd), "--"+colorFlag, f.Value.String(), screen.Colors); err != nil {
			return err
		}
		out.Color(f.Value.String())
	}
	if f := cmd.Flags().Lookup(debugFlag); f != nil {
		out.Debugging = f.Value.String() == "true"
	}
	return nil
}

func (p *printOptions) addExplain(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.explain, "explain", false,
		"show the disassembly around each call site, before and after, side by side")
}

func (p *printOptions) check(verb string) error {
	if err := oneOf(verb, "--format", p.format, p.formats()); err != nil {
		return err
	}
	if p.progress == "" { // the verb has no --progress
		return nil
	}
	if p.quiet {
		p.progress = "quiet"
	}
	return oneOf(verb, "--progress", p.progress, progressModes)
}

func (p *printOptions) formats() []string { return slices.Concat(formats, p.special) }

func (p *printOptions) json() bool { return p.format == "json" }

// workOptions are how the work is done.
type workOptions struct {
	reads    bool // images, so that the options for that count
	platform string
	jobs     int
	insecure bool
	authFile string
	stall    time.Duration
	maxTemp  string
}

// DefaultStall is how long a registry may make no progress: it has to store a blob of some
// GB, and hash it, before it answers.
const defaultStall = 2 * time.Minute

// addJobs declares --jobs, and --max-temp; what says which things are processed in parallel.
func (w *workOptions) addJobs(cmd *cobra.Command, what string) {
	cmd.Flags().IntVarP(&w.jobs, "jobs", "j", 0,
		"`N` "+what+" to process in parallel; 0: one per processor")
	w.addTemp(cmd)
}

func (w *workOptions) addTemp(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.maxTemp, "max-temp", "8G",
		"use at most this many `BYTES` of temporary files; K, M and G are accepted")
}

// addMedia declares what reading an image needs.
func (w *workOptions) addMedia(cmd *cobra.Command) {
	w.reads = true
	cmd.Flags().StringVar(&w.platform, "platform", "",
		"select this `PLATFORM` of a multi-platform image: linux/amd64, or a variant such as linux/amd64/v3 (default: linux/amd64, which scan, rebuild and verify take with all its variants)")
	words(cmd, "platform", []string{"linux/amd64", "linux/amd64/v2", "linux/amd64/v3"})
	cmd.Flags().BoolVar(&w.insecure, "insecure", false,
		"allow plain HTTP and unverified TLS for registries")
	cmd.Flags().StringVar(&w.authFile, "authfile", "",
		"read registry credentials only from this `FILE` (default: $REGISTRY_AUTH_FILE, else those of docker and podman)")
	cmd.Flags().DurationVar(&w.stall, "stall-timeout", defaultStall,
		"retry when a registry makes no progress for this `TIME`, such as 30s or 5m")
}

// check returns the platform, which is the zero value for a verb without --platform.
func (w *workOptions) check(verb string) (v1.Platform, error) {
	var none v1.Platform
	if w.jobs < 0 {
		return none, usagef(verb, "--jobs %d: must not be negative", w.jobs)
	}
	if w.maxTemp != "" {
		limit, err := bytesOf(verb, "--max-temp", w.maxTemp)
		if err != nil {
			return none, err
		}
		blob.Temp.SetLimit(limit)
	}
	if w.reads && w.stall <= 0 {
		return none, usagef(verb, "--stall-timeout %v: must be positive", w.stall)
	}
	if !w.reads {
		return none, nil
	}
	garbage.Limit()
	if w.platform == "" {
		return v1.Platform{OS: "linux", Architecture: "amd64"}, nil
	}
	platform := strings.Replace(w.platform, "x86_64", "amd64", 1) // as uname -m has it
	if platform != "linux" && !strings.Contains(platform, "/") {
		platform = "linux/" + platform
	}
	p, err := v1.ParsePlatform(platform)
	if err != nil || p.OS == "" || p.Architecture == "" || p.OSVersion != "" {
		return none, usagef(verb, "--platform %s: want OS/ARCH or OS/ARCH/VARIANT, as in linux/amd64", w.platform)
	}
	if p.OS != "linux" || p.Architecture != "amd64" {
		return none, usagef(verb, "--platform %s: only linux/amd64 programs can call the vsyscall page", w.platform)
	}
	return *p, nil
}

// media is what package images is told about reading and writing.
func (w *workOptions) media(p v1.Platform, progress progress.Reporter) media.Options {
	return media.Options{
		Platform: p, EveryLevel: w.platform == "", Insecure: w.insecure, Progress: progress, Stall: w.stall, AuthFile: w.authFile,
		UserAgent: "vfix/" + buildVersion().Version,
	}
}

func oneOf(verb, flag, got string, allowed []string) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	return usagef(verb, "%s %s: want one of %s", flag, got, strings.Join(allowed, ", "))
}

// words completes a flag with fixed words.
func words(cmd *cobra.Command, flag string, allowed []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(fmt.Sprintf("completion of --%s: %v", flag, err)) // declared twice, or not at all
	}
}

// sourceArgs checks that a verb got from 1 to most SOURCEs or PATHs; most < 0 is any number.
func sourceArgs(verb, what string, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef(verb, "no %s given", what)
		case most >= 0 && len(args) > most:
			return usagef(verb, "%d %ss given, want %d: %s", len(args), what, most, strings.Join(args, " "))
		}
		if i := slices.Index(args, ""); i >= 0 {
			return usagef(verb, "%s %d is empty", what, i+1)
		}
		return nil
	}
}

// destPrefixes are the transports that a DEST may begin with.
var destPrefixes = []string{
	string(media.Daemon), string(media.DockerArchive), string(media.OCILayout), string(media.OCIArchive), string(media.Dir), string(media.SIF),
}

// parseDest takes a DEST apart, now and not when the image has been read for minutes. A
// misspelt prefix would otherwise be the name of an image, and a missing directory be found
// out at the end.
func parseDest(verb, typed string) (media.Ref, error) {
	dest, err := media.ParseRef(typed)
	if err != nil {
		return dest, usagef(verb, "-o: %v", err)
	}
	prefix, rest, found := strings.Cut(typed, ":")
	if dest.Guessed && found && !strings.ContainsAny(prefix, "./") {
		if like := nearest.Of(prefix, destPrefixes); len(like) > 0 {
			return dest, &usageError{verb: verb, msg: fmt.Sprintf("-o %s: unknown prefix %s:", typed, prefix),
				hint: fmt.Sprintf("did you mean %s:%s? An image of that name is written %s:%s", like[0], rest, media.Daemon, typed)}
		}
	}
	switch dest.Transport {
	case media.DockerArchive, media.OCILayout, media.OCIArchive, media.Dir, media.SIF:
		parent := filepath.Dir(filepath.Clean(dest.Name))
		fi, err := os.Stat(parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return dest, fmt.Errorf("-o %s: %w", typed, err)
		}
		if err != nil || !fi.IsDir() {
			return dest, &usageError{verb: verb, msg: fmt.Sprintf("-o %s: no directory %s", typed, parent), hint: "create it first: mkdir -p " + quote.Path(parent)}
		}
	}
	if dest.Transport == media.Dir {
		if err := sources.CheckRootDest(dest.Name); err != nil {
			return dest, fmt.Errorf("-o: %w", err)
		}
	}
	return dest, nil
}
