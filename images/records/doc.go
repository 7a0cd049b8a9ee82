// Package records finds the records of patched files in an image's dpkg and rpm databases, and
// corrects those of dpkg.
package records
