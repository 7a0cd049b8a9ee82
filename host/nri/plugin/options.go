// The options of the plugin.

package plugin

import "vfix.dev/vfix/host/nri"

// Options are those of 'vfix nri', and where the plugin prints.
type Options struct {
	nri.Options
	Hook []byte // the program of the hook
	// Log takes a message, Result a line that an audit found. Several threads may call them.
	Log, Result func(format string, args ...any)
}
