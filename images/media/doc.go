// Package media knows where images come from and go to, one medium a file: a daemon, a
// registry, docker archives, OCI layouts and archives. Each has an open and a put.
package media
