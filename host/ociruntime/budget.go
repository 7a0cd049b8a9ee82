// The limits of one start: time, memory, names and copied bytes.

package ociruntime

import (
	"fmt"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// Limits bound what one start may take: the image is hostile, and the work is done before the
// container's own limits hold. 0 is the default.
type Limits struct {
	// Names is how many files and folders are looked at, layers together.
	Names int `json:"names,omitempty"`
	// CopyBytes is how many bytes of patched copies are made or given out.
	CopyBytes int64 `json:"copy_bytes,omitempty"`
	// Seconds is how long the root is examined, and files are copied.
	Seconds float64 `json:"seconds,omitempty"`
	// MemoryBytes is how much memory vfix takes.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
}

// The defaults: some ten times of what the largest images need.
const (
	DefaultNames       = 2 << 20
	DefaultCopyBytes   = 1 << 30
	DefaultSeconds     = 60
	DefaultMemoryBytes = 512 << 20
)

func (l Limits) check() error {
	switch {
	case l.Names < 0:
		return fmt.Errorf("limits.names: got %d, want 0 or more", l.Names)
	case l.CopyBytes < 0:
		return fmt.Errorf("limits.copy_bytes: got %d, want 0 or more", l.CopyBytes)
	case l.Seconds < 0:
		return fmt.Errorf("limits.seconds: got %v, want 0 or more", l.Seconds)
	case l.MemoryBytes < 0:
		return fmt.Errorf("limits.memory_bytes: got %d, want 0 or more", l.MemoryBytes)
	}
	return nil
}

// withDefaults fills in what is 0.
func (l Limits) withDefaults() Limits {
	if l.Names == 0 {
		l.Names = DefaultNames
	}
	if l.CopyBytes == 0 {
		l.CopyBytes = DefaultCopyBytes
	}
	if l.Seconds == 0 {
		l.Seconds = DefaultSeconds
	}
	if l.MemoryBytes == 0 {
		l.MemoryBytes = DefaultMemoryBytes
	}
	return l
}

// budget is what is left to a start.
type budget struct {
	Limits
	begun time.Time
	names atomic.Int64
	bytes int64
}

func newBudget(l Limits) *budget { return &budget{Limits: l.withDefaults(), begun: time.Now()} }

// since is how long the start takes by now, in seconds.
func (b *budget) since() float64 { return time.Since(b.begun).Seconds() }

// until is when the time is up.
func (b *budget) until() time.Time {
	return b.begun.Add(time.Duration(b.Seconds * float64(time.Second)))
}

func (b *budget) late() error {
	return fmt.Errorf("longer than %v seconds (limits.seconds)", b.Seconds)
}

// seen counts a name, and looks at clock and memory now and then. Several walkers may call it.
func (b *budget) seen() error {
	n := b.names.Add(1)
	if n > int64(b.Names) {
		return fmt.Errorf("more than %d files and directories (limits.names)", b.Names)
	}
	const often = 1 << 10
	if n%often != 1 {
		return nil
	}
	return b.used()
}

// inTime errs where the time is used up.
func (b *budget) inTime() error {
	if time.Since(b.begun).Seconds() > b.Seconds {
		return b.late()
	}
	return nil
}

// used errs where time or memory are used up.
func (b *budget) used() error {
	if err := b.inTime(); err != nil {
		return err
	}
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	if got := sample[0].Value.Uint64(); got > uint64(b.MemoryBytes) {
		return fmt.Errorf("more than %d bytes of memory (limits.memory_bytes)", b.MemoryBytes)
	}
	return nil
}

// copied counts the bytes of a copy that is to be made.
func (b *budget) copied(size int64) error {
	if b.bytes += size; b.bytes > b.CopyBytes {
		return fmt.Errorf("more than %d bytes of copies (limits.copy_bytes)", b.CopyBytes)
	}
	return b.used()
}
