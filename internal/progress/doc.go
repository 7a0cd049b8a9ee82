// Package progress is how long work tells what it is doing.
package progress
