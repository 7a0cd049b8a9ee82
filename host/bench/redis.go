// The redis benchmark: rounds against redis-server of two root filesystems, and how the output
// of redis-benchmark is read.

package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// RedisOptions are the choices of a redis measurement.
type RedisOptions struct {
	// Original and Rebuilt are root filesystems, directories of the caller's.
	Original, Rebuilt string
	Requests          int // a test and round
	Rounds            int
	Pipeline          int
	Step              func(round int, mode string)
}

// Redis is what one server did under redis-benchmark.
type Redis struct {
	Mode      string  `json:"mode"`                // Original or Rebuilt
	Test      string  `json:"test"`                // "SET", "GET", …
	PerSecond float64 `json:"requests_per_second"` // requests: the median of the rounds
	// Least and Most requests a second of the rounds.
	Least float64 `json:"requests_per_second_least"`
	Most  float64 `json:"requests_per_second_most"`
	// Latencies are the parts of the requests that were answered within so many
	// milliseconds, as redis-benchmark prints them in the median round.
	Latencies []Latency `json:"latencies"`
	Absent    string    `json:"absent"` // why it could not be measured
}

// Latency is a point of a cumulative latency histogram.
type Latency struct {
	Percent      float64 `json:"percent"`
	Milliseconds float64 `json:"ms"`
}

// redisRun is what redis-benchmark printed of one test.
type redisRun struct {
	test      string
	perSecond float64
	latencies []Latency
}

// parseRedis reads redis-benchmark's output, of 2.x to 7.x:
//
//	====== SET ======
//	  200000 requests completed in 1.02 seconds
//	98.03% <= 1 milliseconds                     (2.x to 6.0)
//	50.000% <= 0.263 milliseconds (cumulative …)  (6.2 and later)
//	196078.44 requests per second                (2.x to 6.0)
//	  throughput summary: 196078.44 requests per second
func parseRedis(out []byte) ([]redisRun, error) {
	var all []redisRun
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		// Progress lines overwrite each other.
		line := lines.Text()
		line = strings.TrimSpace(line[strings.LastIndexByte(line, '\r')+1:])
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "====== "):
			all = append(all, redisRun{test: strings.TrimSpace(strings.Trim(line, "= "))})
		case len(all) == 0:
		case len(fields) >= 4 && strings.HasSuffix(line, " requests per second"):
			n, err := strconv.ParseFloat(fields[len(fields)-4], 64)
			if err != nil {
				return nil, fmt.Errorf("redis-benchmark: %q: %w", line, err)
			}
			all[len(all)-1].perSecond = n
		case len(fields) >= 4 && fields[1] == "<=" && strings.HasSuffix(fields[0], "%"):
			percent, err1 := strconv.ParseFloat(strings.TrimSuffix(fields[0], "%"), 64)
			ms, err2 := strconv.ParseFloat(fields[2], 64)
			if err1 == nil && err2 == nil {
				all[len(all)-1].latencies = append(all[len(all)-1].latencies, Latency{percent, ms})
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("redis-benchmark: %w", err)
	}
	for _, r := range all {
		if r.perSecond <= 0 {
			return nil, fmt.Errorf("redis-benchmark: no figure for %s", r.test)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("redis-benchmark printed no test")
	}
	return all, nil
}

// redisTests are the measured commands: the two that everyone knows.
var redisTests = []string{"SET", "GET"}

// MeasureRedis runs redis-benchmark against redis-server of both root filesystems in turn,
// over a unix socket. The same redis-benchmark drives both: the rebuilt image's, because the original one
// would be slowed by the vsyscall page itself.
func MeasureRedis(ctx context.Context, o RedisOptions) ([]Redis, error) {
	sides := []*redisSide{{mode: Original, root: o.Original}, {mode: Rebuilt, root: o.Rebuilt}}
	for round := range o.Rounds {
		for _, s := range sides {
			if s.absent != "" {
				continue
			}
			if o.Step != nil {
				o.Step(round+1, s.mode)
			}
			if err := s.round(ctx, o); err != nil {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				s.absent = err.Error()
			}
		}
	}
	if len(sides[1].runs) == 0 {
		return nil, fmt.Errorf("redis-server of the rebuilt image: %s", sides[1].absent)
	}
	var all []Redis
	for _, test := range redisTests {
		for _, s := range sides {
			all = append(all, s.result(test))
		}
	}
	return all, nil
}

// redisSide is one of the two servers.
type redisSide struct {
	mode, root string
	runs       [][]redisRun // one a round
	absent     string
}

func (s *redisSide) result(test string) Redis {
	out := Redis{Mode: s.mode, Test: test, Absent: s.absent}
	var rates []float64
	for _, round := range s.runs {
		for _, r := range round {
			if r.test == test {
				rates = append(rates, r.perSecond)
			}
		}
	}
	if len(rates) == 0 {
		return out
	}
	out.Absent = ""
	out.PerSecond, out.Least, out.Most = median(rates), slices.Min(rates), slices.Max(rates)
	// The round nearest to the median stands for the latencies.
	best := math.Inf(1)
	for _, round := range s.runs {
		for _, r := range round {
			if d := math.Abs(r.perSecond - out.PerSecond); r.test == test && d < best {
				best, out.Latencies = d, r.latencies
			}
		}
	}
	return out
}
