// Package progress is the interface by which long work reports its progress.
package progress
