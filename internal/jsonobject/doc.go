// Package jsonobject edits members of JSON objects, keeping the bytes of all others, and describes errors in
// JSON.
package jsonobject
