// What vfix-runtime must know of the binary that it is part of.

package ociruntime

import "io"

// Options are what vfix-runtime must know of the binary that it is part of.
type Options struct {
	// Maker is a text that differs where patched copies do: the version of vfix.
	Maker func() string
	// Version is that of vfix, for the record.
	Version string
	// The programs of the fallback: libvfix.so, its empty 32-bit twin, vfix-trace.
	Library, Library32, Trace []byte
	Stderr                    io.Writer
}

func (o *Options) maker() string {
	if o.Maker == nil {
		return ""
	}
	return o.Maker()
}
