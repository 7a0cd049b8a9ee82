// Package host works on the machine that vfix runs on: it starts programs so that they do
// without the vsyscall page. It knows no images, and not what the fallback's programs do.
package host
