// The options that several verbs share. Each verb adds those that it supports, so that any other is a usage
// error there.

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

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/internal/nearest"
	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// printOptions are how results and progress are shown.
type printOptions struct {
	format  string
	quiet   bool
	verbose bool
	explain bool
}

var formats = []string{"table", "json"}

// sharedKey is the annotation of an option that means the same in each verb: 'vfix help options' explains it.
const sharedKey = "shared"

// shared marks options as such.
func shared(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		f := cmd.Flag(name)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[sharedKey] = []string{}
	}
}

func (p *printOptions) add(cmd *cobra.Command) {
	p.addFormat(cmd)
	cmd.Flags().BoolVarP(&p.quiet, "quiet", "q", false, "print only results, warnings and errors")
	cmd.Flags().BoolVarP(&p.verbose, "verbose", "v", false, "also print each lookup and each request to a registry")
	shared(cmd, "quiet", "verbose")
}

func (p *printOptions) addFormat(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.format, "format", "table", "print results in this `FORMAT`: table, or json (see 'vfix help json')")
	choices(cmd, "format", formats)
	shared(cmd, "format")
}

func (p *printOptions) addExplain(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.explain, "explain", false, "show the machine code around each call site, before and after")
}

func (p *printOptions) json() bool { return p.format == "json" }

// workOptions control the work and its output.
type workOptions struct {
	printOptions
	read     images.ScanOptions // once begin has returned: for package images
	reads    bool               // images, so that the options for that count
	platform string
	fix      string
}

// addJobs declares --jobs.
func (w *workOptions) addJobs(cmd *cobra.Command) {
	cmd.Flags().IntVarP(&w.read.Jobs, "jobs", "j", 0, "process `N` files, or with --from-file images, in parallel (default: one per processor)")
	shared(cmd, "jobs")
}

// addMedia declares what reading an image needs.
func (w *workOptions) addMedia(cmd *cobra.Command) {
	w.reads = true
	cmd.Flags().StringVar(&w.platform, "platform", "", "select this `PLATFORM` of a multi-platform image, such as linux/amd64/v3 (default: linux/amd64; scan, rebuild and verify process all its variants)")
	words(cmd, "platform", []string{"linux/amd64", "linux/amd64/v2", "linux/amd64/v3"})
	cmd.Flags().BoolVar(&w.read.Media.Insecure, "insecure", false, "allow plain HTTP and unverified TLS for registries")
	cmd.Flags().StringVar(&w.read.Media.AuthFile, "authfile", "", "read registry credentials only from this `FILE` (default: $REGISTRY_AUTH_FILE, else those of docker and podman)")
	shared(cmd, "platform", "insecure", "authfile")
}

// addFix declares --fix: what is fixed besides call sites.
func (w *workOptions) addFix(cmd *cobra.Command) {
	var all []string
	for _, r := range find.Fixes {
		all = append(all, fmt.Sprintf("%s (%s)", r, fixes.Of(r).Affects))
	}
	cmd.Flags().StringVar(&w.fix, "fix", "", "also fix `WHAT`: "+strings.Join(all, ", "))
	words(cmd, "fix", fixes.Names())
}

// begin checks the options, and begins to show progress.
func (w *workOptions) begin(verb string, out *output) error {
	if w.read.Jobs < 0 {
		return usagef(verb, "--jobs %d: must not be negative", w.read.Jobs)
	}
	if w.reads {
		p, err := parsePlatform(verb, w.platform)
		if err != nil {
			return err
		}
		w.read.Media.Platform = p
	}
	if w.fix != "" {
		var err error
		if w.read.Rewriter.Fixes, err = fixes.Parse(w.fix); err != nil {
			return usagef(verb, "--fix: %v", err)
		}
	}
	out.Quiet, out.Verbose = w.quiet, w.verbose
	w.read.Rewriter.Explain = w.explain
	w.read.Media.Progress, w.read.Media.UserAgent, w.read.Shim = out.Progress(), userAgent(), fallbackShim()
	return nil
}

// parsePlatform reads a value of --platform.
func parsePlatform(verb, text string) (v1.Platform, error) {
	if text == "" {
		return v1.Platform{OS: "linux", Architecture: "amd64"}, nil
	}
	platform := strings.Replace(text, "x86_64", "amd64", 1) // the name that uname -m prints
	if platform != "linux" && !strings.Contains(platform, "/") {
		platform = "linux/" + platform
	}
	p, err := v1.ParsePlatform(platform)
	if err != nil || p.OS == "" || p.Architecture == "" || p.OSVersion != "" {
		return v1.Platform{}, usagef(verb, "--platform %s: want OS/ARCH or OS/ARCH/VARIANT, as in linux/amd64", text)
	}
	if p.OS != "linux" || p.Architecture != "amd64" {
		return v1.Platform{}, usagef(verb, "--platform %s: only linux/amd64 programs can call the vsyscall page", text)
	}
	return *p, nil
}

// userAgent is vfix's name in requests to registries and engines.
func userAgent() string { return "vfix/" + buildVersion().Version }

// texts are words of a type of their own as texts.
func texts[T ~string](all []T) (words []string) {
	for _, word := range all {
		words = append(words, string(word))
	}
	return words
}

func oneOf(verb, flag, got string, allowed []string) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	return usagef(verb, "%s %s: want one of %s", flag, got, strings.Join(allowed, ", "))
}

// choicesKey is the annotation of an option that lists its allowed values: see checkOptions.
const choicesKey = "choices"

// choices restricts an option to fixed words.
func choices(cmd *cobra.Command, flag string, allowed []string) {
	words(cmd, flag, allowed)
	f := cmd.Flag(flag)
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[choicesKey] = allowed
}

// words completes an option with fixed words.
func words(cmd *cobra.Command, flag string, allowed []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(fmt.Sprintf("completion of --%s: %v", flag, err)) // declared twice, or not at all
	}
}

// destPrefixes are the transports that a DEST may begin with.
var destPrefixes = []string{
	string(source.Daemon), string(source.DockerArchive), string(source.OCILayout), string(source.OCIArchive), string(source.Dir),
}

// parseDest parses a DEST now, not after the image has been read for minutes. Otherwise a misspelt prefix
// would be taken for the name of an image, and a missing directory would be noticed at the end.
func parseDest(verb, typed string) (source.Ref, error) {
	dest, err := source.ParseRef(typed)
	if err != nil {
		u := &usageError{verb: verb, msg: fmt.Sprintf("-o: %v", err)}
		if store := (*source.StoreError)(nil); errors.As(err, &store) {
			u.hint = store.LoadHint()
		}
		return dest, u
	}
	prefix, rest, found := strings.Cut(typed, ":")
	if dest.Guessed && found && !strings.ContainsAny(prefix, "./") {
		if like := nearest.Of(prefix, destPrefixes); len(like) > 0 {
			return dest, &usageError{verb: verb, msg: fmt.Sprintf("-o %s: unknown prefix %s:", typed, prefix),
				hint: fmt.Sprintf("did you mean %s:%s? An image of that name is written %s:%s", like[0], rest, source.Daemon, typed)}
		}
	}
	switch dest.Transport {
	case source.DockerArchive, source.OCILayout, source.OCIArchive, source.Dir:
		parent := filepath.Dir(filepath.Clean(dest.Name))
		fi, err := os.Stat(parent)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return dest, fmt.Errorf("-o %s: %w", typed, err)
		}
		if err != nil || !fi.IsDir() {
			return dest, &usageError{verb: verb, msg: fmt.Sprintf("-o %s: no directory %s", typed, parent), hint: "create it first: mkdir -p " + quote.Path(parent)}
		}
	}
	if dest.Transport == source.Dir {
		if err := source.CheckRootDest(dest.Name); err != nil {
			return dest, fmt.Errorf("-o: %w", err)
		}
	}
	return dest, nil
}

// fallbackShim returns the parts of the fallback. Package images gets it from here: it knows images, not the
// code that runs in them.
func fallbackShim() fallback.Shim {
	return fallback.Shim{Library: shim.Library(), Library32: shim.Library32(), Trace: shim.Trace()}
}
