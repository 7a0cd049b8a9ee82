// Package blob reads content that is named by its digest: manifests, and layers as checked, decompressed tar streams.
// It also keeps contents in temporary files, and edits JSON texts.
package blob
