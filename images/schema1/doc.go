// Package schema1 reads Docker's old manifests (schema 1, with their signatures) and the image
// configs of that time, and makes OCI configs of them.
package schema1
