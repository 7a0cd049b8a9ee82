package ociruntime

// HookCommand takes the place of a runtime's command if vfix-runtime is the hook.
const HookCommand = "hook"
