// Package provenance states what a rebuild did to every file (in-toto), and finds such statements.
package provenance
