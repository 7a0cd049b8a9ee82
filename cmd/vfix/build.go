// Which vfix this is.

package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"vfix.dev/vfix/shim"
)

// version and commit are set when vfix is built: -ldflags "-X main.version=1.2.3 -X
// main.commit=0123abcd".
var version, commit string

// issues is where a bug is reported; set at build time like version, -X main.issues=URL.
var issues = "https://vfix.dev/vfix/issues"

// buildInfo is what vfix version prints.
type buildInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // "" where the build does not know it
	Modified bool   `json:"modified"` // the commit plus changes
	Go       string `json:"go"`
	Platform string `json:"platform"`  // that vfix itself runs on
	Shim     int    `json:"shim_size"` // bytes of injected code in the binary
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

// shimSize is the size in bytes of the code that is injected.
func shimSize() int { return len(shim.Code()) }
