// Package garbage limits how much garbage there may be while images are read.
package garbage

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// little is what the Go runtime may take, in bytes, before garbage is collected more often than
// usual: of the 80 MiB that an image of 1 GB took, 25 were garbage from buffers. This costs no time.
const little = 44 << 20

// Limit limits memory by what is in use, again after each collection: a fixed limit below that
// would make the collector run all the time.
func Limit() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(little)
	var again func(*[16]byte)
	again = func(collected *[16]byte) {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		bytes, percent := limits(sample[0].Value.Uint64())
		debug.SetMemoryLimit(bytes)
		debug.SetGCPercent(percent)
		runtime.SetFinalizer(collected, again)
	}
	runtime.SetFinalizer(new([16]byte), again)
}

// limits are the limits while live bytes of the heap are in use: of all memory of the runtime, and of
// garbage, as a percentage of the live bytes. From three quarters of little on, only the latter applies: the
// former would leave too little for the collector to pause. With 300,000 files in use, 40% take a quarter
// less memory than Go's 100%, and a tenth more of one processor.
func limits(live uint64) (bytes int64, percent int) {
	if live < little/4*3 {
		return little, 100
	}
	return math.MaxInt64, 40
}
