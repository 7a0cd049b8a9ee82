// The names of the programs that make puts into vfix.

package main

const (
	runtimeFile = "embedded/vfix-runtime.gz"
	nriFile     = "embedded/vfix-nri.gz"
)
