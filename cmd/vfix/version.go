// The verb version.

package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
)

func newVersionCommand(out *output, _ engine) *cobra.Command {
	cmd := newVerb("version", noArguments, func(context.Context, []string) error {
		return out.show(false, buildVersion(), func(s screen.Stream) { fmt.Fprint(s, buildVersion()) })
	})
	addFormat(cmd)
	return cmd
}

// String says which vfix this is, in lines.
func (b buildInfo) String() string {
	from := cmp.Or(b.Commit, "not known")
	if b.Modified {
		from += " with changes"
	}
	return fmt.Sprintf("vfix %s\ncommit    %s\nbuilt by  %s for %s\n", b.Version, from, b.Go, b.Platform)
}

// version and commit are set when vfix is built: -ldflags "-X main.version=1.2.3 -X
// main.commit=0123abcd".
var version, commit string

// issues is where a bug is reported; set at build time like version, -X main.issues=URL.
var issues = "https://vfix.dev/vfix/issues"

type buildInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // "" where the build does not know it
	Modified bool   `json:"modified"` // the commit plus changes
	Go       string `json:"go"`
	Platform string `json:"platform"` // that vfix itself runs on
}

// ownBuild is what Go wrote into this binary, parsed once: each command line asks for the version several times.
var ownBuild = sync.OnceValues(debug.ReadBuildInfo)

// buildVersion returns the version of this binary: the one set by the linker, else the module's, else "devel".
func buildVersion() buildInfo {
	b := buildInfo{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := ownBuild(); ok {
		if info.Main.Version != "(devel)" {
			b.Version = cmp.Or(b.Version, info.Main.Version)
		}
		for _, s := range info.Settings {
			b.Modified = b.Modified || s.Key == "vcs.modified" && s.Value == "true"
			if s.Key == "vcs.revision" {
				b.Commit = cmp.Or(b.Commit, s.Value)
			}
		}
	}
	b.Version = cmp.Or(b.Version, "devel")
	return b
}
