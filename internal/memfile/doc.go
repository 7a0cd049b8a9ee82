// Package memfile makes files in memory that can be executed.
package memfile
