// Package images finds the files of an image, a root filesystem, an archive or a folder,
// has the rewriter look at each, and writes the derived image: the base plus one layer.
//
// Sources and sinks are github.com/google/go-containerregistry values (v1.Image,
// v1.ImageIndex), one medium a file. The package knows OCI and file systems and no opcodes.
package images
