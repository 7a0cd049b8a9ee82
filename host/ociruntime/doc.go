// Package ociruntime is vfix-runtime: an OCI runtime in front of the real one. On create
// and run it reads the bundle, has patched copies of the files that call the vsyscall page
// take the place of the originals, and then executes the real runtime in its own place.
// Every other command goes through untouched.
//
// The order of work, one file each:
//
//	args       what the engine typed: runc's command line, as far as it matters
//	config     /etc/vfix/runtime.json
//	find       which program is the real runtime
//	spec       the bundle's config.json: what is read of it, and the splice that adds mounts
//	mountinfo  what the root filesystem is: an overlay, an engine's folder, any other folder
//	look       which files of the root need patches
//	tree       which files of a folder call the page: examine looks at one, indexes remember
//	patch      the patched copy of a file, and its mount; replace puts it into the root itself
//	fix     what is fixed besides calls of the page, and the files for it
//	prepare    the order of a start: joins these
//	log        the one line with the reason if something was not done
package ociruntime
