//go:build !linux && !darwin

package xattrs
