// Package hinterr has the errors that callers branch on, and errors that know what to type next.
package hinterr
