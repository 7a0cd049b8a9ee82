// Package patch patches files, folders and tarballs, in place or as a copy.
package patch
