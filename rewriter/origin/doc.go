// Package origin finds the origin of a program in its bytes: the libc, Go's linker, code that sets up signals
// without a libc.
package origin
