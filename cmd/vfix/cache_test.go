package main

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/internal/hinterr"
)

// TestCacheHints: the hint to remove the cache is for errors of the cache alone. An error of the configuration
// keeps its own hint, in 'vfix cache' and in 'vfix runtime status'.
func TestCacheHints(t *testing.T) {
	for want, err := range map[string]error{
		"correct it":           hinterr.With(errors.New("/etc/vfix/runtime.json: empty"), "correct it"),
		"run vfix as root":     fs.ErrPermission,
		"remove the directory": errors.New("cache: x"),
	} {
		e := fake(clean(), nil)
		e.cache = func(string, string, int64) (*ociruntime.Cached, error) { return nil, err }
		if got := runLine(e, "cache", "list"); got.status != 1 || !strings.Contains(got.stderr, "hint: ") || !strings.Contains(got.stderr, want) {
			t.Errorf("%v: got status %d, %s, want %q", err, got.status, got.stderr, want)
		}
	}
	e := fake(clean(), nil)
	e.status = func(ociruntime.StatusOptions) (*ociruntime.Status, error) {
		return nil, hinterr.With(errors.New("/etc/vfix/runtime.json: empty"), "correct it")
	}
	if got := runLine(e, "runtime", "status"); got.status != 1 || !strings.Contains(got.stderr, "hint: correct it") {
		t.Errorf("status: got status %d, %s", got.status, got.stderr)
	}
}
