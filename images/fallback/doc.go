// Package fallback knows what an image has of libvfix.so and vfix-trace, what it needs, and
// which call sites they cover.
package fallback
