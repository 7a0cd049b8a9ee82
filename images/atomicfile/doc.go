// Package atomicfile writes files completely or not at all, one writer at a time, and
// removes what killed runs left.
package atomicfile
