package probe

import (
	"math"
	"testing"
)

func TestTimes(t *testing.T) {
	s := Times([]byte("vdso:time 3\nvdso:time 1\npage:time absent\nvdso:time 2\nx NaN\nx -1\nx 1e300\nx\n\n"))
	if m, ok := s.Median("vdso:time"); !ok || m != 2 {
		t.Errorf("median: got %v, %v, want 2", m, ok)
	}
	if m, ok := s.Quantile("vdso:time", 0); !ok || m != 1 {
		t.Errorf("least: got %v, %v, want 1", m, ok)
	}
	if m, ok := s.Quantile("vdso:time", 1); !ok || m != 3 {
		t.Errorf("most: got %v, %v, want 3", m, ok)
	}
	for _, absent := range []string{"page:time", "x", ""} {
		if m, ok := s.Median(absent); ok {
			t.Errorf("%q: got %v, want none", absent, m)
		}
	}
}

func TestEntries(t *testing.T) {
	got := Entries([]byte("a 0/10\nb 10/10\nc absent\nd 11/10\ne -1/10\nf 0/0\n"))
	if len(got) != 2 || got["a"] != (Entry{0, 10}) || got["b"] != (Entry{10, 10}) {
		t.Errorf("got %v", got)
	}
}

func TestOutcome(t *testing.T) {
	for want, o := range map[string]Outcome{
		"ok": {}, "SIGSEGV": {Signal: SIGSEGV}, "SIGSYS (a seccomp filter)": {Signal: SIGSYS}, "signal 9": {Signal: 9},
		"absent": {Status: StatusAbsent}, "status 1: why": {Status: 1, Stderr: "why"}, "status 2": {Status: 2},
	} {
		if got := o.String(); got != want || o.OK() != (want == "ok") {
			t.Errorf("%+v: got %q, want %q", o, got, want)
		}
	}
}

// FuzzOutput: whatever a child prints, its figures are finite numbers.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("vdso:time 1.5\n"))
	f.Add([]byte("vdso:time 0/1000\nx 9999999999999999999/1\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		s := Times(out)
		for subject := range s {
			if m, ok := s.Median(subject); !ok || math.IsNaN(m) || math.IsInf(m, 0) || m < 0 {
				t.Errorf("%q: median %v", subject, m)
			}
		}
		for subject, e := range Entries(out) {
			if e.Calls <= 0 || e.Entered < 0 || e.Entered > e.Calls {
				t.Errorf("%q: %v", subject, e)
			}
		}
	})
}

func TestPagePerms(t *testing.T) {
	for maps, want := range map[string]string{
		"7ffc-7ffd r-xp 00000000 00:00 0 [vdso]\nffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n": "--xp",
		"ffffffffff600000-ffffffffff601000 r-xp 00000000 00:00 0                  [vsyscall]\n":                                         "r-xp",
		"7ffc-7ffd r-xp 00000000 00:00 0 [vdso]\n": "", "\n[vsyscall]\n": "", "": "",
	} {
		if got := PagePerms([]byte(maps)); got != want {
			t.Errorf("%q: got %q, want %q", maps, got, want)
		}
	}
}
