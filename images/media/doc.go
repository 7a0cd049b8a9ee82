// Package media reads and writes images, one medium a file: a daemon, a registry, docker
// archives, OCI layouts and archives. Each has an open and a put.
package media
