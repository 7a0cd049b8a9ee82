// Package redact takes credentials out of what is printed.
package redact
