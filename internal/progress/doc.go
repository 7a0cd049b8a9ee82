// Package progress is how long work reports what it is doing.
package progress
