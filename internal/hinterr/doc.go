// Package hinterr has the errors that callers branch on, and errors that carry a hint.
package hinterr
