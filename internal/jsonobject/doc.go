// Package jsonobject edits members of JSON objects and keeps all others as their bytes are, and says in words what
// is wrong with JSON.
package jsonobject
