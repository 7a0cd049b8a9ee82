// Package run starts a program on the machine that vfix runs on, so that it does
// without the vsyscall page. It knows no images, and not what the fallback's programs do.
package run
