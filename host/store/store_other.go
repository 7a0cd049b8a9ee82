//go:build !linux

// Stubs for systems other than Linux.

package store

import (
	"errors"
	"io/fs"
	"time"
)

var errSystem = errors.New("the cache of vfix-runtime exists only on Linux")

// Open returns an error: this system has no store.
func Open(string, int64) (*Store, error) { return nil, errSystem }

// Existing returns an error: this system has no store.
func Existing(string, int64) (*Store, error) { return nil, errSystem }

type lease struct{}

func (s *Store) leased() (map[string]bool, error) { return nil, errSystem }
func (s *Store) sweep(string) error               { return errSystem }
func accessTime(fi fs.FileInfo) time.Time         { return fi.ModTime() }
func diskSize(fi fs.FileInfo) int64               { return fi.Size() }

// Remove returns an error: this system has no store.
func (s *Store) Remove(Entry) (bool, error) { return false, errSystem }

// SHA256 returns "": this system has no store.
func (s *Store) SHA256(string) string { return "" }
