//go:build !linux && !darwin

// Systems without extended attributes that vfix reads: nothing.

package filecopy
