// The size of a store: the least recently used entries are removed until it fits its limit.

package store

import (
	"errors"
	"time"
)

// Trim reduces the store to its limit, if something was added to it.
func (s *Store) Trim() error {
	if !s.added || s.Limit <= 0 {
		return nil
	}
	s.added = false
	_, err := s.Prune(s.Limit)
	return err
}

func sum(all []Entry) int64 {
	var n int64
	for _, e := range all {
		n += e.Size
	}
	return n
}

// Prune removes the least recently used entries until at most limit bytes are left, and incomplete files. It
// returns the removed entries. Entries in use (InUse, Lease) stay. A negative limit removes every entry that
// is not in use.
func (s *Store) Prune(limit int64) ([]Entry, error) {
	if err := errors.Join(s.sweep(tempDir), s.sweep(locksDir)); err != nil { // files without a writer, locks without a holder
		return nil, err
	}
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	held, err := s.leased()
	if err != nil {
		return nil, err
	}
	private, err := s.PrivateBytes()
	if err != nil {
		return nil, err
	}
	left := sum(all) + private
	var gone []Entry
	now := time.Now()
	for i := len(all) - 1; i >= 0 && left > limit; i-- {
		e := all[i]
		if now.Sub(e.Used) < InUse {
			break // the entries before it were used later
		}
		if held[e.Key] && !e.Index {
			continue
		}
		removed, err := s.Remove(e)
		if err != nil {
			return gone, err
		}
		if removed {
			left -= e.Size
			gone = append(gone, e)
		}
	}
	return gone, nil
}
