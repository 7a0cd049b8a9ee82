// Package node patches the files of a container when it starts. It never makes a start worse than it would be without
// vfix: on any error the container starts as it is, and a record says what was left.
//
// Patched files go into the container's own writable layer. What to patch is found in the layers of its image, each of
// which is looked at once, and in the container's own layer at each start. Two doors lead to the same work: vfix-runtime
// in front of an OCI runtime, and the same program as an OCI createRuntime hook.
//
//	start      the work of one start, from its configuration to its record
//	main args  the two doors
//	config     the configuration file and the annotations of a container
//	root       whether a root filesystem is the container's own, and the directories that it consists of
//	find       files to patch in each directory: from the cache, or by a look at it
//	cache      what is known about a directory
//	look       the files of a directory, within bounds
//	place      patched files are put into the root
//	fallback   files of the fallback and of fixes are put into the root
//	record     one line about each start
package node
