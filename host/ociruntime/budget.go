// The limits of one start: time, memory, names and copied bytes.

package ociruntime

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/internal/nodefile"
)

type budget struct {
	policy.Limits
	begun time.Time
	names atomic.Int64
	pause time.Time // when a scan must save its results; zero: only at its end
	bytes int64
}

func newBudget(l policy.Limits) *budget { return &budget{Limits: l.WithDefaults(), begun: time.Now()} }

// since returns the duration of the start so far, in seconds.
func (b *budget) since() float64 { return time.Since(b.begun).Seconds() }

func (b *budget) until() time.Time {
	return b.begun.Add(time.Duration(b.Seconds * float64(time.Second)))
}

func (b *budget) late() error {
	return fmt.Errorf("longer than %v seconds (limits.seconds)", b.Seconds)
}

// seen counts a name, and checks time and memory at intervals. It is safe for several walkers.
func (b *budget) seen() error {
	n := b.names.Add(1)
	if n > int64(b.Names) {
		return fmt.Errorf("more than %d files and directories (limits.names)", b.Names)
	}
	const often = 1 << 10
	if n%often != 1 {
		return nil
	}
	if !b.pause.IsZero() && time.Now().After(b.pause) {
		return errPause
	}
	return b.used()
}

// errPause ends a scan step so that its results can be saved.
var errPause = errors.New("paused")

// inTime returns an error if the time limit is reached.
func (b *budget) inTime() error {
	if time.Since(b.begun).Seconds() > b.Seconds {
		return b.late()
	}
	return nil
}

// used returns an error if the time or memory limit is reached.
func (b *budget) used() error {
	if err := b.inTime(); err != nil {
		return err
	}
	text, err := nodefile.Text("/proc/self/statm") // in pages: addresses, memory, … (proc_pid_statm(5))
	var addresses, memory int64
	if err == nil {
		_, err = fmt.Sscan(string(text), &addresses, &memory)
	}
	if err != nil {
		return fmt.Errorf("limits.memory_bytes: %w", err)
	}
	if memory*int64(os.Getpagesize()) > b.MemoryBytes {
		return fmt.Errorf("more than %d bytes of memory (limits.memory_bytes)", b.MemoryBytes)
	}
	return nil
}

// copied counts the bytes of a copy before it is made.
func (b *budget) copied(size int64) error {
	if b.bytes += size; b.bytes > b.CopyBytes {
		return fmt.Errorf("more than %d bytes of copies (limits.copy_bytes)", b.CopyBytes)
	}
	return b.used()
}
