package bench

import (
	"errors"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 2, 100}, 3},
	} {
		if got := median(c.v); got != c.want {
			t.Errorf("%v: got %v, want %v", c.v, got, c.want)
		}
	}
}

// TestFigures has a mode that was measured, one that was not, and one without a vDSO to compare.
func TestFigures(t *testing.T) {
	s := newSamples()
	for _, ns := range []float64{2, 1, 9} {
		s.add("time", VDSO, ns)
	}
	s.add("time", Page, 400)
	s.miss(Page, "not served", "getcpu")
	s.add("gettimeofday", Page, 10)
	got := map[string]Figure{}
	for _, f := range s.figures(Modes) {
		got[f.Function+" "+f.Mode] = f
	}
	if want := len(Functions) * len(Modes); len(got) != want {
		t.Errorf("got %d figures, want %d: each function and mode", len(got), want)
	}
	for key, want := range map[string]Figure{
		"time vdso":         {"time", VDSO, 2, 1, 9, 1, "", 5e8},
		"time page":         {"time", Page, 400, 400, 400, 200, "", 2.5e6},
		"getcpu page":       {"getcpu", Page, 0, 0, 0, 0, "not served", 0},
		"gettimeofday page": {"gettimeofday", Page, 10, 10, 10, 0, "", 1e8},
		"time libc":         {"time", Libc, 0, 0, 0, 0, "not measured", 0},
	} {
		if got[key] != want {
			t.Errorf("%s: got %+v, want %+v", key, got[key], want)
		}
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		out    string
		only   []string
		want   map[string]float64
		absent string
		fails  bool
	}{
		{"time 2500\ngettimeofday 20000\n", nil, map[string]float64{"time": 2.5, "gettimeofday": 20}, "", false},
		{"vdso:time 2.5\n", nil, map[string]float64{"time": 2.5}, "", false},
		{"time 2500\ngetcpu 1000\n", []string{"getcpu"}, map[string]float64{"getcpu": 1}, "", false},
		{"getcpu absent\n", nil, nil, "getcpu", false},
		{"time\n", nil, nil, "", true},
		{"time fast\n", nil, nil, "", true},
		{"time 0\n", nil, nil, "", true},
		{"time -5\n", nil, nil, "", true},
	} {
		s := newSamples()
		err := s.read(candidate{mode: Libc, args: []string{"program"}, only: c.only}, []byte(c.out))
		if (err != nil) != c.fails {
			t.Errorf("%q: error %v", c.out, err)
		}
		if !c.fails && len(s.ns) != len(c.want) {
			t.Errorf("%q: got %v, want %v", c.out, s.ns, c.want)
		}
		for f, want := range c.want {
			if got := s.ns[[2]string{f, Libc}]; len(got) != 1 || got[0] != want {
				t.Errorf("%q: %s: got %v, want %v", c.out, f, got, want)
			}
		}
		if c.absent != "" && s.absent[[2]string{c.absent, Libc}] == "" {
			t.Errorf("%q: %s is not absent", c.out, c.absent)
		}
	}
}

// The output of redis-benchmark 2.8 and 7.0.
const (
	redis28 = "====== SET ======\n  100000 requests completed in 0.10 seconds\n  50 parallel clients\n  3 bytes payload\n  keep alive: 1\n\n" +
		"98.03% <= 1 milliseconds\n100.00% <= 2 milliseconds\n98 <= 3 milliseconds\nx% <= 3 milliseconds\n99% <= x milliseconds\n980392.19 requests per second\n\n"
	redis70 = "SET: rps=0.0 (overall: 0.0)\r====== GET ======                     \n  100000 requests completed in 0.20 seconds\n\n" +
		"Latency by percentile distribution:\n0.000% <= 0.263 milliseconds (cumulative count 1)\n100.000% <= 1.4 milliseconds (cumulative count 100000)\n\n" +
		"Summary:\n  throughput summary: 498756.22 requests per second\n  latency summary (msec):\n"
)

func TestParseRedis(t *testing.T) {
	got, err := parseRedis([]byte(redis28 + redis70))
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v, %v, want two tests", got, err)
	}
	if got[0].test != "SET" || got[0].perSecond != 980392.19 || len(got[0].latencies) != 2 || got[0].latencies[0] != (Latency{98.03, 1}) {
		t.Errorf("2.8: got %+v", got[0])
	}
	if got[1].test != "GET" || got[1].perSecond != 498756.22 || got[1].latencies[1] != (Latency{100, 1.4}) {
		t.Errorf("7.0: got %+v", got[1])
	}
	for _, bad := range []string{"", "Could not connect to Redis\n", "====== SET ======\n", "====== SET ======\nmany requests per second\n", "====== SET ======\nrequests per second\n"} {
		if got, err := parseRedis([]byte(bad)); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, got)
		}
	}
}

func TestRedisResult(t *testing.T) {
	s := &redisSide{mode: Original}
	for i, n := range []float64{100, 300, 290} {
		s.runs = append(s.runs, []redisRun{
			{test: "GET", perSecond: 290, latencies: []Latency{{100, 9}}}, {test: "SET", perSecond: n, latencies: []Latency{{100, float64(i)}}},
		})
	}
	got := s.result("SET")
	if got.PerSecond != 290 || got.Least != 100 || got.Most != 300 || got.Latencies[0].Milliseconds != 2 {
		t.Errorf("got %+v, want the median, and the latencies of its round", got)
	}
	s = &redisSide{mode: Original, absent: "it died"}
	if got := s.result("SET"); got.Absent != "it died" {
		t.Errorf("got %+v, want the reason", got)
	}
}

func FuzzParseRedis(f *testing.F) {
	f.Add([]byte(redis28))
	f.Add([]byte(redis70))
	f.Fuzz(func(t *testing.T, out []byte) {
		got, err := parseRedis(out)
		if err == nil && len(got) == 0 {
			t.Error("no test and no error")
		}
	})
}

// TestNothing: where not even a system call can be measured there is an error.
func TestNothing(t *testing.T) {
	p := &place{o: Options{Rounds: 1}}
	failing := candidate{mode: Syscall, args: []string{"/nowhere/program"}, explain: func(err error) string { return "it failed" }}
	err := p.measure(t.Context(), newSamples(), []candidate{failing})
	if err == nil || !strings.Contains(err.Error(), "it failed") {
		t.Errorf("got %v, want the reason", err)
	}
	if errors.Is(err, ErrUnsupported) {
		t.Error("want another error than one about the system")
	}
}
