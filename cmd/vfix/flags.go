// The options that several verbs share. Each verb adds those that it supports, so that any other is a usage
// error there.

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/internal/addedfiles"
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
	cmd.Flags().StringVar(&w.platform, "platform", "", "select this `PLATFORM` of a multi-platform image, such as linux/amd64/v3 (default: linux/amd64)")
	words(cmd, "platform", []string{"linux/amd64", "linux/amd64/v2", "linux/amd64/v3"})
	shared(cmd, "platform")
	w.addRegistry(cmd)
}

// addRegistry declares what talking to a registry needs.
func (w *workOptions) addRegistry(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.read.Media.Insecure, "insecure", false, "allow plain HTTP and unverified TLS for registries")
	cmd.Flags().StringVar(&w.read.Media.AuthFile, "authfile", "", "read registry credentials only from this `FILE` (default: $REGISTRY_AUTH_FILE, else those of docker and podman)")
	shared(cmd, "insecure", "authfile")
}

// addFix declares --fix: what is fixed besides call sites.
func (w *workOptions) addFix(cmd *cobra.Command) {
	var all []string
	for _, r := range find.Fixes {
		all = append(all, fmt.Sprintf("%s (%s)", r, addedfiles.FixOf(r).Affects))
	}
	cmd.Flags().StringVar(&w.fix, "fix", "", "also fix `WHAT`: "+strings.Join(all, ", "))
	words(cmd, "fix", addedfiles.FixNames())
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
		if w.read.Rewriter.Fixes, err = addedfiles.ParseFixes(w.fix); err != nil {
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
	p, err := v1.ParsePlatform(cmp.Or(text, "linux/amd64"))
	switch {
	case err != nil || p.OSVersion != "" || p.Architecture == "":
		return v1.Platform{}, usagef(verb, "--platform %s: want OS/ARCH or OS/ARCH/VARIANT, as in linux/amd64", text)
	case p.OS != "linux" || p.Architecture != "amd64":
		return v1.Platform{}, usagef(verb, "--platform %s: only linux/amd64 programs can call the vsyscall page", text)
	}
	return *p, nil
}

// userAgent is vfix's name in requests to registries and engines.
func userAgent() string { return "vfix/" + buildVersion().Version }

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

// notTogether rejects pairs of options of which only one makes sense.
func notTogether(cmd *cobra.Command, pairs ...[2]string) error {
	for _, p := range pairs {
		if cmd.Flags().Changed(p[0]) && cmd.Flags().Changed(p[1]) {
			return usagef(verbOf(cmd), "--%s and --%s do not go together: use one of them", p[0], p[1])
		}
	}
	return nil
}

// fallbackShim returns the parts of the fallback. Package images gets it from here: it knows images, not the
// code that runs in them.
func fallbackShim() fallback.Shim {
	return fallback.Shim{Library: shim.Library(), Library32: shim.Library32(), Trace: shim.Trace()}
}
