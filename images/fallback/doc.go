// Package fallback finds out which files of libvfix.so and vfix-trace an image has, which it
// needs, and which call sites they cover.
package fallback
