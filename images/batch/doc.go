// Package batch rebuilds lists of images, and remembers which images are done.
package batch
