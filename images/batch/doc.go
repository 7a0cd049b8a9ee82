// Package batch rebuilds lists of images, and remembers what is done.
package batch
