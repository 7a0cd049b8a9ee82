// Package origin tells where a program comes from, by its bytes: the libc, Go's
// linker, code that sets up signals without a libc.
package origin
