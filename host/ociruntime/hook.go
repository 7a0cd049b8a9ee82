package ociruntime

// HookCommand is what stands in the place of a runtime's command where vfix-runtime is the hook.
const HookCommand = "hook"
