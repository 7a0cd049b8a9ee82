// Package patch patches files, directories and tarballs, in place or as a copy.
package patch
