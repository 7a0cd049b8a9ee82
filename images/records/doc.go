// Package records looks up what the databases of dpkg and rpm in an image record of patched files,
// and corrects it.
package records
