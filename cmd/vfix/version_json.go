// The JSON of vfix version.

package main

import (
	"vfix.dev/vfix/cmd/vfix/embedded"
	"vfix.dev/vfix/shim"
)

type jsonVersion struct {
	jsonDocument
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Shim     int    `json:"shim_size"`
	Library  int    `json:"library_size"`
	Trace    int    `json:"trace_size"`
	Runtime  int64  `json:"runtime_size"`
}

func versionJSON(b buildInfo) jsonVersion {
	return jsonVersion{
		jsonDocument: document("version"), Version: b.Version, Commit: b.Commit, Modified: b.Modified,
		Go: b.Go, Platform: b.Platform, Shim: b.Shim, Library: len(shim.Library()), Trace: len(shim.Trace()), Runtime: embedded.Size(embedded.Runtime),
	}
}
