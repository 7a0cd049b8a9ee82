// Package origin finds the origin of a program, by its bytes: the libc, Go's
// linker, code that sets up signals without a libc.
package origin
