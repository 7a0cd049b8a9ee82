//go:build !linux || !amd64

package main

// runtimeSize is 0: engines need a vfix for linux/amd64, which has a vfix-runtime in it.
func runtimeSize() int64 { return 0 }
