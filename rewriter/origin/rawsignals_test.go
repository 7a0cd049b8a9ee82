package origin

import (
	"testing"
)

// TestRawSignals: a load of the number and a syscall near it, in a program with a loader; and code that only looks
// similar.
func TestRawSignals(t *testing.T) {
	const load, call = "\xb8\x0d\x00\x00\x00", "\x0f\x05"
	for name, c := range map[string]struct {
		code string
		want bool
	}{
		"adjacent":       {load + call, true},
		"an argument":    {load + "\x41\xba\x08\x00\x00\x00" + call, true},
		"rt_sigprocmask": {"\x48\xc7\xc0\x0e\x00\x00\x00" + call, true},
		"push, pop":      {"\x6a\x0d\x58" + call, true},
		"far away":       {load + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + call, false},
		"another call":   {"\xb8\x0c\x00\x00\x00" + call, false},
		"no call":        {load, false},
		"twice":          {load + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + load + call, true},
	} {
		got := false
		for _, l := range rawSignalCalls {
			got = got || rawSignalIn([]byte("\x90\x90"+c.code), l)
		}
		if got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
