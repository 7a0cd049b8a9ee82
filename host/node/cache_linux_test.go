package node

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Rule 10: the entries that were used least recently go first.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := openCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	c.limit = 3500
	f := &findings{Time: time.Now(), Left: []leftover{{Reason: strings.Repeat("x", 900)}}}
	for i := range 3 {
		key := fmt.Sprint("key", i)
		if err := c.put(key, f); err != nil {
			t.Fatal(err)
		}
		past := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(c.path(key), past, past); err != nil {
			t.Fatal(err)
		}
	}
	if c.get("key0") == nil {
		t.Fatal("no entry")
	}
	if err := c.put("key3", f); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, true, true} {
		if got := c.get(fmt.Sprint("key", i)) != nil; got != want {
			t.Errorf("key%d: got %v, want %v", i, got, want)
		}
	}
}

// An entry of a start that did not see everything is looked at again after a day.
func TestCut(t *testing.T) {
	c := &cache{dir: t.TempDir(), limit: maxCache}
	for age, want := range map[time.Duration]bool{time.Hour: true, 25 * time.Hour: false} {
		if err := c.put("key", &findings{Left: []leftover{{Reason: "time"}}, Time: time.Now().Add(-age)}); err != nil {
			t.Fatal(err)
		}
		if got := c.get("key") != nil; got != want {
			t.Errorf("after %v: got %v, want %v", age, got, want)
		}
	}
}

func TestOthersWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := openCache(dir); err == nil {
		t.Error("a directory that everybody writes to")
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 1, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := openCache(dir); err == nil {
			t.Error("a directory of another user")
		}
	}
}
