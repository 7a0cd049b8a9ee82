// Package redact removes credentials from printed text.
package redact
