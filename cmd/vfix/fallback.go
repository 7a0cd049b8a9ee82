// What the fallback is made of.

package main

import (
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/shim"
)

// fallbackShim is what the fallback is made of. Package images is told it: it knows images,
// and not what runs in them.
func fallbackShim() images.Shim {
	return images.Shim{Library: shim.Library(), Library32: shim.Library32(), Trace: shim.Trace()}
}
