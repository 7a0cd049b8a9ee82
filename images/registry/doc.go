// Package registry is the connection to registries: TLS, mirrors, login, retries, downloads
// that resume and uploads. What is an image there, package media says.
package registry
