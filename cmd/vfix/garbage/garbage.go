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
// usual: of the 80 MiB that an image of 1 GB took, 25 were garbage of buffers, and no time is lost.
const little = 44 << 20

// Limit limits memory by what is in use, after each collection anew: a fixed limit below that
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
		debug.SetMemoryLimit(limit(sample[0].Value.Uint64()))
		runtime.SetFinalizer(collected, again)
	}
	runtime.SetFinalizer(new([16]byte), again)
}

// limit is the limit while live bytes of the heap are in use. From three quarters of little
// on there is none: what is left would be too little for the collector to rest.
func limit(live uint64) int64 {
	if live < little/4*3 {
		return little
	}
	return math.MaxInt64
}
