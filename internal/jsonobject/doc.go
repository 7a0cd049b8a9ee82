// Package jsonobject edits members of JSON objects and keeps all others as their bytes are.
package jsonobject
