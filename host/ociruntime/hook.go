package ociruntime

// These take the place of a runtime's command if vfix-runtime is a hook.
const (
	HookCommand    = "hook"    // that does the work of a start
	startedCommand = "started" // that records it
)
