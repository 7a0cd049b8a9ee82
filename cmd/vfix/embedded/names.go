// Package embedded has the programs that vfix carries for Linux on amd64.
package embedded

// The programs: the one that engines execute at each start of a container, and the plugin of NRI.
const (
	Runtime = "vfix-runtime"
	NRI     = "vfix-nri"
)
