// Package rootfs reads the root filesystem of a container from outside, and never leaves it: no symlink, "..",
// fifo or device in an image makes it open, or wait for, anything except a regular file below the root.
package rootfs
