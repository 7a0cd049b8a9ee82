// Package registry is the connection to registries: TLS, mirrors, login, retries, downloads
// that resume and uploads. Package media says which blobs are an image.
package registry
