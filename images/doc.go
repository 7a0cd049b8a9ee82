// Package images has one file a verb: Scan, Rebuild, Verify, Convert, Unpack, Layer.
// Each opens a SOURCE (package sources), examines what is visible in it (contents), and writes
// the derived image: the base plus one layer. The stages of a rebuild and of a verify are
// files named after them: rebuild_*.go, verify_*.go.
//
// Sources and sinks are github.com/google/go-containerregistry values (v1.Image,
// v1.ImageIndex). The package knows OCI and file systems and no opcodes.
package images
