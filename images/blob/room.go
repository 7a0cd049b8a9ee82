// How much the temporary files of a process may hold together: a layer of 2 MB can have files of
// 2 GB that are to be looked at.

package blob

import (
	"sync/atomic"

	"vfix.dev/vfix/internal/hinterr"
)

// DefaultTempLimit is the limit of Temp, in bytes: the largest libraries known have 3 GB, and four
// layers are read at once.
const DefaultTempLimit = 8 << 30

// Temp is the room of this process's temporary files, as far as what they hold depends on what a
// source unpacks to.
var Temp = NewRoom(DefaultTempLimit)

// Room is a number of bytes that several writers share. Its methods may be called from several
// goroutines at once.
type Room struct{ limit, used atomic.Int64 }

// NewRoom makes a room for limit bytes.
func NewRoom(limit int64) *Room {
	r := &Room{}
	r.SetLimit(limit)
	return r
}

// Limit is how many bytes there are.
func (r *Room) Limit() int64 { return r.limit.Load() }

// SetLimit changes how many bytes there are.
func (r *Room) SetLimit(limit int64) { r.limit.Store(limit) }

// take takes n bytes, or errs where they are not left.
func (r *Room) take(n int64) error {
	if r.used.Add(n) > r.limit.Load() {
		r.used.Add(-n)
		return hinterr.With(hinterr.Errorf(hinterr.ErrTooLarge, "temporary files: more than %d bytes", r.limit.Load()),
			"if the source is to be trusted, allow more with --max-temp; TMPDIR selects the directory")
	}
	return nil
}

func (r *Room) give(n int64) { r.used.Add(-n) }
