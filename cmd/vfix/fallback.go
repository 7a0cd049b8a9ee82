// What the fallback is made of.

package main

import (
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/shim"
)

// fallbackShim is what the fallback is made of. Package images is told it: it knows images,
// and not what runs in them.
func fallbackShim() fallback.Shim {
	return fallback.Shim{Library: shim.Library(), Library32: shim.Library32(), Trace: shim.Trace()}
}
