// The limit of memory while images are read.

package garbage

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The limit is lifted once more is in use, so that the collector does not run all the time.
func TestLimit(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	Limit()
	if got := debug.SetMemoryLimit(-1); got != little {
		t.Errorf("got %d, want %d", got, little)
	}
	held := make([]byte, little)
	for i := 0; debug.SetMemoryLimit(-1) != math.MaxInt64; i++ {
		const most = 1000
		if i == most {
			t.Fatalf("got %d with %d bytes in use, want no limit", debug.SetMemoryLimit(-1), len(held))
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	_, want := limits(little)
	if got := debug.SetGCPercent(100); got != want {
		t.Errorf("got garbage of %d%% with %d bytes in use, want %d", got, len(held), want)
	}
	runtime.KeepAlive(held)
}
