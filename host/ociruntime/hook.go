// What those who add the hook to a container must know of it.

package ociruntime

import "time"

// HookCommand is what stands in the place of a runtime's command where vfix-runtime is the hook.
const HookCommand = "hook"

// overtime is how long a hook may take beyond limits.seconds, which are looked at between two files.
const overtime = 10 * time.Second

// hookLimit is when a hook gives up on what hangs.
func (c Config) hookLimit() time.Duration {
	return time.Duration(c.Limits.withDefaults().Seconds*float64(time.Second)) + overtime
}

// HookTimeout is when a runtime may end a hook: by then it has ended by itself.
func (c Config) HookTimeout() time.Duration { return c.hookLimit() + overtime }

// RecordFile is where starts are recorded: a path, or a word of package starts.
func (c Config) RecordFile() string { return c.record() }
