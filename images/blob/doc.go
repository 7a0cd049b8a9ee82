// Package blob reads content that is named by its digest: manifests, and layers as checked,
// decompressed tar streams. It also keeps such content in temporary files (spool), and
// lists all blobs that an image or index needs (collection).
package blob
