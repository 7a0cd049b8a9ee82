package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/shim"
)

// version and commit are set when vfix is built: -ldflags "-X main.version=1.2.3 -X
// main.commit=0123abcd".
var version, commit string

// buildInfo is what vfix version prints.
type buildInfo struct {
	Version  string
	Commit   string // "" where the build does not know it
	Modified bool   // the commit plus changes
	Go       string
	Platform string // that vfix itself runs on
	Shim     int    // bytes of injected code in the binary
}

// buildVersion says what this binary is: the linker's word, else the module's version,
// else "devel".
func buildVersion() buildInfo {
	b := buildInfo{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Shim: shimSize()}
	info, ok := debug.ReadBuildInfo()
	if ok {
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = cmp.Or(b.Commit, s.Value)
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

// VersionOptions are the choices of vfix version.
type VersionOptions struct{ printOptions }

func newVersionCommand(out *output) *cobra.Command {
	var opts VersionOptions
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what this vfix is",
		Long: `Prints the version, the commit it was built from, the Go it was built with and
the sizes of the code that vfix injects into patched files, of libvfix.so and of
vfix-trace.`,
		Example: `  vfix version
  vfix version --format json`,
		Annotations: exits("  0  done   2  usage"),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runVersion(cmd.Context(), opts, out)
		},
	}
	opts.addFormat(cmd)
	return cmd
}

func runVersion(_ context.Context, opts VersionOptions, out *output) error {
	if err := opts.check("version"); err != nil {
		return err
	}
	b := buildVersion()
	if opts.json() {
		return out.json(versionJSON(b))
	}
	from := cmp.Or(b.Commit, "not known")
	if b.Modified {
		from += " with changes"
	}
	fmt.Fprintf(out.stdout, "vfix %s\ncommit    %s\nbuilt by  %s for %s\nshim      %d bytes\nfallback  libvfix.so %d bytes, vfix-trace %d bytes\n",
		b.Version, from, b.Go, b.Platform, b.Shim, len(shim.Library()), len(shim.Trace()))
	return nil
}

// shimSize is the size in bytes of the code that is injected.
func shimSize() int { return len(shim.Code()) }
