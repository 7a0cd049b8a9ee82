// Package contents is the merged file system of an image, a directory or a tarball: the visible files, those that
// call the vsyscall page, and the layer that is added.
package contents
