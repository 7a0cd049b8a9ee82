package source

import (
	"testing"
	"time"
)

// FastRetries makes the pauses between tries short.
func FastRetries(t testing.TB) {
	old := firstPause
	firstPause = time.Millisecond
	t.Cleanup(func() { firstPause = old })
}
