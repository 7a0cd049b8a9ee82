// Package sources opens any SOURCE and writes any DEST: it distinguishes the formats by content, handles
// SIF files and root filesystems, and leaves images to package media.
package sources
