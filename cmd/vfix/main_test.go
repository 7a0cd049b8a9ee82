// From errors and signals to exit statuses; the fake engine and what the other tests share.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/host/doctor"
	"vfix.dev/vfix/host/run"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/images/patch"
)

// lineResult is the output of a command line and its exit status.
type lineResult struct {
	stdout, stderr string
	status         int
}

func runLine(e engine, args ...string) lineResult {
	var stdout, stderr bytes.Buffer
	status := vfix(context.Background(), args, &stdout, &stderr, e)
	return lineResult{stdout.String(), stderr.String(), status}
}

// fake is an engine that finds f everywhere and fails with err.
func fake(f *contents.Findings, err error) engine {
	return engine{
		scan: func(context.Context, string, images.ScanOptions) (*contents.Findings, error) { return f, err },
		patch: func(context.Context, []string, patch.Options) (*contents.Findings, error) {
			return f, err
		},
		rebuild: func(_ context.Context, _ string, o images.RebuildOptions) (*images.Rebuilt, error) {
			if err != nil {
				return nil, err
			}
			return rebuiltOf(f, o), nil
		},
		readList: func(string, lists.Part) ([]lists.Item, error) { return []lists.Item{{Line: 1, Source: "app:1"}}, err },
		rebuildAll: func(_ context.Context, items []lists.Item, o lists.Options) []lists.Image {
			one := lists.Image{Item: items[0], Status: lists.Done, Reference: "app:1-vfix", LeftOver: f.Uncovered().Left}
			o.Each(one)
			return []lists.Image{one}
		},
		scanAll: func(_ context.Context, items []lists.Item, o lists.Options) []lists.Image {
			return []lists.Image{{Item: items[0], Status: lists.Unaffected}}
		},
		list: func(_ context.Context, source string, o lists.ListOptions) error {
			return errors.Join(err, o.Each("docker://r.example/app:1"))
		},
		verify: func(context.Context, string, images.VerifyOptions) (*images.Verified, error) {
			if err != nil {
				return nil, err
			}
			return &images.Verified{Findings: f, Compared: 3}, nil
		},
		layer: func(context.Context, images.LayerOptions) (*images.Layered, error) {
			return &images.Layered{Reference: "vfix:latest", Digest: digest, Files: []string{"vfix/vfix"}, Size: 1 << 20}, err
		},
		diagnose: func(context.Context, []string, crashOptions) ([]*diagnose.Result, error) {
			return []*diagnose.Result{{Input: "log", Lines: 9}}, err
		},
		run: func([]string, run.Options) error { return err },
		doctor: func(context.Context, doctor.Options) (*doctor.Report, error) {
			if err != nil {
				return nil, err
			}
			return healthy(), nil
		},
	}
}

func TestExitStatus(t *testing.T) {
	wrapped := fmt.Errorf("layer 3: %w", errors.New("short"))
	findings, unread := finding("", "left"), incompletef("", "unread")
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"error", wrapped, 1},
		{"usage", usagef("no"), 2},
		{"findings", findings, 3},
		{"two findings", errors.Join(findings, findings), 3},
		{"unread", unread, 4},
		{"a finding beside unread", errors.Join(unread, findings), 3},
		{"error beside unread", errors.Join(unread, wrapped), 1},
		{"error beside findings", errors.Join(findings, wrapped), 1},
		{"wrapped usage", fmt.Errorf("x: %w", usagef("no")), 2},
		{"interrupted", stopped(syscall.SIGINT), 130},
		{"hung up", stopped(syscall.SIGHUP), 129},
		{"terminated", stopped(syscall.SIGTERM), 143},
		{"broken pipe", screen.ErrBrokenPipe, 141},
	} {
		if got := exitStatus(c.err); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestStatusOfVerbs(t *testing.T) {
	verbs := [][]string{{"scan", "x"}, {"patch", "-i", "x"}, {"rebuild", "x"}, {"verify", "x"}}
	for _, c := range []struct {
		name string
		e    engine
		want [4]int // in the order of verbs
	}{
		{"nothing found", fake(clean(), nil), [4]int{0, 0, 0, 0}},
		{"all patchable", fake(patchable(), nil), [4]int{3, 0, 0, 3}},
		{"unknown left", fake(mixed(), nil), [4]int{3, 4, 4, 3}},
		{"unknown left, and covered", fake(covered(), nil), [4]int{3, 0, 0, 3}},
		{"dormant and benign only", fake(harmless(), nil), [4]int{0, 0, 0, 0}},
		{"error", fake(nil, errors.New("layer sha256:ab: no")), [4]int{1, 1, 1, 1}},
	} {
		for i, args := range verbs {
			if got := runLine(c.e, args...); got.status != c.want[i] {
				t.Errorf("%s: vfix %s: got status %d, want %d\n%s", c.name, strings.Join(args, " "), got.status, c.want[i], got.stderr)
			}
		}
	}
}

// An error leaves stdout empty, in either format, and is two lines on stderr.
func TestErrorForm(t *testing.T) {
	e := fake(nil, fmt.Errorf("layer sha256:ab: usr/lib/x.so: %w", syscall.ENOSPC))
	for _, args := range [][]string{
		{"scan", "x"}, {"scan", "--format", "json", "x"},
		{"patch", "-i", "--format", "json", "x"}, {"rebuild", "--format=json", "x"}, {"rebuild", "x"},
		{"verify", "--format", "json", "x"},
	} {
		got := runLine(e, args...)
		want := "vfix: error: layer sha256:ab: usr/lib/x.so: no space left on device\n" +
			"vfix: hint: free some space, or choose another place with -o; temporary files go to TMPDIR\n"
		if got.stdout != "" || got.stderr != want || got.status != 1 {
			t.Errorf("vfix %s: got %+v", strings.Join(args, " "), got)
		}
	}
}

// scan goes on behind a source that cannot be read, and ends with 1.
func TestScanSeveral(t *testing.T) {
	e := fake(clean(), nil)
	e.scan = func(_ context.Context, source string, _ images.ScanOptions) (*contents.Findings, error) {
		if source == "bad" {
			return nil, errors.New("bad: not found")
		}
		f := clean()
		f.Source = source
		return f, nil
	}
	got := runLine(e, "scan", "one", "bad", "two")
	if got.status != 1 || !strings.Contains(got.stdout, "one: NOT AFFECTED\n") || !strings.Contains(got.stdout, "two: NOT AFFECTED\n") ||
		!strings.Contains(got.stderr, "vfix: error: bad: not found\n") {
		t.Errorf("got %+v", got)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestBrokenPipe(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		stderr string
	}{
		{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, 141, ""},
		{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}, 1,
			"vfix: error: stdout: write /dev/stdout: no space left on device\n"},
	} {
		var stderr bytes.Buffer
		status := vfix(context.Background(), []string{"scan", "-q", "x"}, failingWriter{c.err}, &stderr, fake(patchable(), nil))
		if status != c.status || !strings.HasPrefix(stderr.String(), c.stderr) || c.stderr == "" && stderr.Len() > 0 {
			t.Errorf("%v: got status %d, stderr %q", c.err, status, stderr.String())
		}
	}
}
