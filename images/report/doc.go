// Package report keeps and writes what became of the images of a list: a row an image.
package report
