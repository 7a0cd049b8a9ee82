// Package store keeps patched copies of files, and what is known of the folders they came
// from, under one folder (v1 of /var/lib/vfix, see layout):
//
//	files/KEY   a patched copy, or a folder of files that belong together
//	index/KEY   what a scan found
//	locks/NN    held with flock(2) while an entry is made; never removed
//	tmp/        what is being written, locked by who writes it
//
// An entry appears by rename and whole. Whoever is killed leaves a file in tmp that nobody
// holds; the next one who writes removes it. A copy has its original's mtime, so that the
// time of its last use is its atime, set by Get whatever the mount options say.
//
// Only root may look into the folder: copies have the owner and the mode of their originals,
// setuid included.
package store
