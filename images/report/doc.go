// Package report keeps and writes the outcomes of the images of a list: one row for each image.
package report
