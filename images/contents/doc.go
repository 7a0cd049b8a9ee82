// Package contents is the merged file system of an image, a folder or a tarball: what is
// visible in it, which of its files call the vsyscall page, and the layer that is added.
package contents
