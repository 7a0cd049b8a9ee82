// Package schema1 makes images of what Docker wrote before version 1.10: manifests of schema 1, and chains of layers in
// archives.
package schema1
