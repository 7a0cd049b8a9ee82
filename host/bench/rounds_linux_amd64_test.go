package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// script puts a program into a place, and is the candidate that runs it.
func (p *place) script(t *testing.T, mode, text string) candidate {
	t.Helper()
	if err := p.put(mode, []byte("#!/bin/sh\n"+text+"\n")); err != nil {
		t.Fatal(err)
	}
	return candidate{mode: mode, args: []string{mode, "time"}, env: []string{"WORD=2500"}, explain: died}
}

// Each program runs once a round, until it fails; its reason is what it said.
func TestRounds(t *testing.T) {
	var steps []string
	p := &place{dir: t.TempDir(), o: Options{Rounds: 3, Step: func(round int, mode string) { steps = append(steps, fmt.Sprint(round, mode)) }}}
	s := newSamples()
	all := []candidate{
		p.script(t, "good", `echo "$1 $WORD"`), p.script(t, "status", "echo boom >&2; exit 3"), p.script(t, "quiet", "exit 4"),
		p.script(t, "killed", "kill -SEGV $$"), p.script(t, "filtered", "kill -SYS $$"), p.script(t, "odd", "echo time fast"),
	}
	if err := p.measure(t.Context(), s, all); err != nil {
		t.Fatal(err)
	}
	if got := s.ns[[2]string{"time", "good"}]; !slices.Equal(got, []float64{2.5, 2.5, 2.5}) {
		t.Errorf("got %v", got)
	}
	for mode, want := range map[string]string{
		"status": "exit status 3: boom", "quiet": "exit status 4", "killed": "this kernel does not serve the vsyscall page: a call is SIGSEGV",
		"filtered": "a seccomp filter kills what calls it", "odd": `odd: "time fast\n" is not a duration`, "good": "",
	} {
		if got := s.absent[[2]string{"time", mode}]; got != want {
			t.Errorf("%s: got %q, want %q", mode, got, want)
		}
	}
	if got, want := strings.Join(steps, " "), "1good 1status 1quiet 1killed 1filtered 1odd 2good 3good"; got != want {
		t.Errorf("got the steps %s, want %s", got, want)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := p.measure(ctx, s, all); !errors.Is(err, enough) {
		t.Errorf("stopped: got %v", err)
	}
	if got := noLibc("the image")(os.ErrNotExist); !strings.HasPrefix(got, "the image has no glibc") {
		t.Errorf("got %s", got)
	}
}

// A program replaces what has its name in a root filesystem, and nothing outside of that.
func TestPutInto(t *testing.T) {
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "f")
	if err := errors.Join(os.WriteFile(outside, []byte("mine"), 0o600), os.Symlink(outside, filepath.Join(root, "x")), os.MkdirAll(filepath.Join(root, "d/d"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"x": true, "y": true, "d": false, "../z": false, "none/z": false} {
		if err := putInto(root, name, []byte("new")); (err == nil) != ok {
			t.Errorf("%s: got %v", name, err)
		}
		if fi, err := os.Lstat(filepath.Join(root, name)); ok && (err != nil || fi.Mode() != executable) {
			t.Errorf("%s: got %v, %v", name, fi, err)
		}
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != "mine" {
		t.Errorf("outside: got %q, %v", got, err)
	}
}

// The rebuilt image must have a server; the reason of a side that fails is kept, and it is not tried again.
func TestRedisAbsent(t *testing.T) {
	var steps []string
	o := RedisOptions{Original: filepath.Join(t.TempDir(), "none"), Rebuilt: t.TempDir(), Rounds: 2, Step: func(round int, mode string) { steps = append(steps, fmt.Sprint(round, mode)) }}
	_, err := MeasureRedis(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "rebuilt image: the image has no /usr/local/bin/redis-server and no /usr/bin/redis-server") {
		t.Errorf("got %v", err)
	}
	if want := []string{"1" + Original, "1" + Rebuilt}; !slices.Equal(steps, want) {
		t.Errorf("got the steps %q, want %q", steps, want)
	}
	if err := os.MkdirAll(filepath.Join(o.Rebuilt, "usr/bin/redis-server"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err = MeasureRedis(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no /usr/bin/redis-benchmark") {
		t.Errorf("got %v", err)
	}
	if got := lastLine("a\nb\n\n"); got != "b" {
		t.Errorf("got the last line %q", got)
	}
}
