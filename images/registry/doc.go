// Package registry is the connection to registries: TLS, mirrors, login, retries, downloads that resume, and
// uploads. Package media handles images and their formats.
package registry
