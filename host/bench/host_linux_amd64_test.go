package bench_test

import (
	"strings"
	"testing"

	"vfix.dev/vfix/host/bench"
	"vfix.dev/vfix/shim"
)

// TestHost measures this host: whatever it is, all ways are accounted for, and what every
// x86-64 Linux has is there.
func TestHost(t *testing.T) {
	const rounds, sample = 2, 200 // microseconds
	steps := 0
	figures, err := bench.Host(t.Context(), bench.Options{
		Programs: bench.Programs{
			Measure: shim.Measure(), MeasureLibc: shim.MeasureLibc(), Stubs: shim.Stubs(),
			TwinStubs: shim.TwinStubs(), TwinLibrary: shim.TwinLibrary(),
		},
		Rounds: rounds, Sample: sample, Step: func(int, string) { steps++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if steps < rounds {
		t.Errorf("got %d steps, want more than %d", steps, rounds)
	}
	for _, f := range figures {
		if (f.Absent == "") != (f.Nanoseconds > 0) || f.Least > f.Nanoseconds || f.Most < f.Nanoseconds {
			t.Errorf("%+v: neither a figure nor a reason, or a spread without its median", f)
		}
		if f.Mode == bench.Syscall && f.Absent != "" {
			t.Errorf("%s by system call: %s", f.Function, f.Absent)
		}
		if f.Mode == "patched-entry" && (f.Absent == "") != (f.Function == "time") {
			t.Errorf("%+v: want the entry form of time alone", f)
		}
		if f.Mode == "patched-syscall" && f.Function != "time" && !strings.Contains(f.Absent, "rcx and r11") {
			t.Errorf("%+v: want the registers as the reason why there is no such form", f)
		}
		if f.Mode == bench.Unhealed && f.Absent == "" && f.Ratio > 0 && f.Ratio < 5 {
			t.Errorf("%+v: a signal a call cannot be that fast", f)
		}
	}
}
