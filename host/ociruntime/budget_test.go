package ociruntime

import (
	"errors"
	"strings"
	"testing"
	"time"

	"vfix.dev/vfix/host/policy"
)

// Each limit names itself, and counts what reaches it as allowed.
func TestBudget(t *testing.T) {
	seen := func(n int) func(*budget) error {
		return func(b *budget) (err error) {
			for range n {
				err = errors.Join(err, b.seen())
			}
			return err
		}
	}
	copied := func(sizes ...int64) func(*budget) error {
		return func(b *budget) (err error) {
			for _, n := range sizes {
				err = errors.Join(err, b.copied(n))
			}
			return err
		}
	}
	const long = 2 * time.Minute
	for name, c := range map[string]struct {
		limits policy.Limits
		age    time.Duration
		do     func(*budget) error
		want   string // "" for none
	}{
		"names":              {policy.Limits{Names: 3}, 0, seen(3), ""},
		"a name more":        {policy.Limits{Names: 3}, 0, seen(4), "limits.names"},
		"bytes":              {policy.Limits{CopyBytes: 10}, 0, copied(4, 6), ""},
		"a byte more":        {policy.Limits{CopyBytes: 10}, 0, copied(4, 7), "limits.copy_bytes"},
		"memory, by copies":  {policy.Limits{MemoryBytes: 1}, 0, copied(1), "limits.memory_bytes"},
		"memory, by names":   {policy.Limits{MemoryBytes: 1}, 0, seen(1), "limits.memory_bytes"},
		"time, by copies":    {policy.Limits{Seconds: 1}, long, copied(1), "limits.seconds"},
		"time, by names":     {policy.Limits{Seconds: 1}, long, seen(1), "limits.seconds"},
		"time":               {policy.Limits{Seconds: 1}, long, (*budget).inTime, "limits.seconds"},
		"in time":            {policy.Limits{Seconds: 1000}, long, (*budget).inTime, ""},
		"time, between":      {policy.Limits{Seconds: 1}, long, func(b *budget) error { b.names.Add(1); return b.seen() }, ""},
		"time, by 1024 more": {policy.Limits{Seconds: 1}, long, func(b *budget) error { b.names.Add(1 << 10); return b.seen() }, "limits.seconds"},
		"a pause":            {policy.Limits{}, 0, func(b *budget) error { b.pause = time.Now().Add(-1); return b.seen() }, "paused"},
		"a later pause":      {policy.Limits{}, 0, func(b *budget) error { b.pause = time.Now().Add(time.Hour); return b.seen() }, ""},
	} {
		b := newBudget(c.limits)
		b.begun = b.begun.Add(-c.age)
		if err := c.do(b); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if c.age > 0 && (b.since() < c.age.Seconds() || b.until().Sub(b.begun).Seconds() != c.limits.Seconds) {
			t.Errorf("%s: %v seconds, until %v", name, b.since(), b.until())
		}
	}
}
