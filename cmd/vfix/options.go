// The options that several verbs share. Each verb adds those that it supports, so that any other is a usage
// error there.

package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/shim"
)

// workOptions control the work.
type workOptions struct {
	explain  bool
	read     images.ScanOptions // complete when the verb's work begins
	images   bool               // are read, so that the options for that count
	platform string
	fix      string
}

// The annotations of options. An option that means the same in each verb is shared: 'vfix help options' explains it.
// One with choices accepts only these: see checkOptions.
const sharedKey, choicesKey = "shared", "choices"

// shared marks options as such.
func shared(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		must(cmd.Flags().SetAnnotation(name, sharedKey, nil))
	}
}

// choices restricts an option to fixed words.
func choices(cmd *cobra.Command, name string, allowed []string) {
	words(cmd, name, allowed)
	must(cmd.Flags().SetAnnotation(name, choicesKey, allowed))
}

// words completes an option with fixed words.
func words(cmd *cobra.Command, name string, all []string) {
	must(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)))
}

// must is for errors about options that are not declared, or twice.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// formatFlag is an option of all verbs that print a result.
const formatFlag = "format"

// addFormat declares it.
func addFormat(cmd *cobra.Command) {
	cmd.Flags().String(formatFlag, "table", "print results in this `FORMAT`: table, or json (see 'vfix help json')")
	choices(cmd, formatFlag, []string{"table", "json"})
	shared(cmd, formatFlag)
}

// add declares the options of all verbs that take long, and sets of others. They are checked before the verb's work.
func (w *workOptions) add(cmd *cobra.Command, out *output, sets ...func(*workOptions, *cobra.Command)) {
	addFormat(cmd)
	cmd.Flags().BoolVarP(&out.Quiet, "quiet", "q", false, "print only results, warnings and errors")
	cmd.Flags().BoolVarP(&out.Verbose, "verbose", "v", false, "also print what is read, each lookup and each request to a registry")
	shared(cmd, "quiet", "verbose")
	for _, set := range sets {
		set(w, cmd)
	}
	cmd.PreRunE = func(*cobra.Command, []string) error { return w.begin(out) }
}

func withExplain(w *workOptions, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.explain, "explain", false, "show the machine code around each call site, before and after")
}

func withJobs(w *workOptions, cmd *cobra.Command) {
	cmd.Flags().IntVarP(&w.read.Jobs, "jobs", "j", 0, "process `N` files, or with --from-file images, in parallel (default: one per processor)")
	shared(cmd, "jobs")
}

// withImages is what reading an image needs.
func withImages(w *workOptions, cmd *cobra.Command) {
	w.images = true
	cmd.Flags().StringVar(&w.platform, "platform", "", "select this `PLATFORM` of a multi-platform image, such as linux/amd64/v3 (default: linux/amd64)")
	words(cmd, "platform", []string{"linux/amd64", "linux/amd64/v2", "linux/amd64/v3"})
	shared(cmd, "platform")
	withRegistry(w, cmd)
}

// withRegistry is what talking to a registry needs.
func withRegistry(w *workOptions, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.read.Media.Insecure, "insecure", false, "allow plain HTTP and unverified TLS for registries")
	shared(cmd, "insecure")
}

// withFix is what is fixed besides call sites.
func withFix(w *workOptions, cmd *cobra.Command) {
	var all []string
	for _, r := range find.Fixes {
		all = append(all, fmt.Sprintf("%s (%s)", r, addedfiles.FixOf(r).Affects))
	}
	cmd.Flags().StringVar(&w.fix, "fix", "", "also fix `WHAT`: "+strings.Join(all, ", "))
	words(cmd, "fix", addedfiles.FixNames())
}

// begin checks the options and completes them.
func (w *workOptions) begin(out *output) (err error) {
	if w.read.Jobs < 0 {
		return usagef("--jobs %d: must not be negative", w.read.Jobs)
	}
	if w.images {
		if w.read.Media.Platform, err = parsePlatform(cmp.Or(w.platform, "linux/amd64")); err != nil {
			return err
		}
	}
	if w.fix != "" {
		if w.read.Rewriter.Fixes, err = addedfiles.ParseFixes(w.fix); err != nil {
			return usagef("--fix: %v", err)
		}
	}
	w.read.Rewriter.Explain = w.explain
	w.read.Media.Progress, w.read.Media.UserAgent, w.read.Shim = out, "vfix/"+buildVersion().Version, fallbackShim()
	return nil
}

// parsePlatform reads a value of --platform.
func parsePlatform(text string) (v1.Platform, error) {
	p, err := v1.ParsePlatform(text)
	switch {
	case err != nil || p.OSVersion != "" || p.Architecture == "":
		return v1.Platform{}, usagef("--platform %s: want OS/ARCH or OS/ARCH/VARIANT, as in linux/amd64", text)
	case p.OS != "linux" || p.Architecture != "amd64":
		return v1.Platform{}, usagef("--platform %s: only linux/amd64 programs can call the vsyscall page", text)
	}
	return *p, nil
}

// fallbackShim returns the parts of the fallback. Package images gets it from here: it knows images, not the
// code that runs in them.
func fallbackShim() fallback.Shim {
	return fallback.Shim{Library: shim.Library(), Library32: shim.Library32(), Trace: shim.Trace()}
}

// optionsHelp explains the options that mean the same in each verb that has them.
func optionsHelp() string {
	cmd := &cobra.Command{}
	new(workOptions).add(cmd, newOutput(io.Discard, io.Discard), withJobs, withImages)
	return "These options mean the same in each verb that has them:\n\n" + usages(cmd.Flags()) + "\n"
}

// usages are the lines of a help about options.
func usages(f *pflag.FlagSet) string { return strings.TrimRight(f.FlagUsagesWrapped(helpWidth), "\n") }
