// vfix-runtime as an OCI hook, for engines whose runtime cannot be replaced. The real runtime executes it as a
// createRuntime hook: the container's mounts exist, its first process waits before pivot_root, and the hook is in
// the engine's namespaces.
//
// A createContainer hook would be in the container's namespaces: its limits of memory and processes would apply to
// the work, and root of a user namespace cannot read the cache (docs/how-it-works.md).

package ociruntime

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
)

// hookState is the input of a hook on stdin (runtime-spec, runtime.md, "State").
type hookState struct {
	ID     string `json:"id"`
	Pid    int    `json:"pid"`
	Bundle string `json:"bundle"`
}

// maxState is the maximum size of a state with its annotations, in bytes.
const maxState = 4 << 20

func readState(r io.Reader) (s hookState, err error) {
	if r == nil {
		return s, errors.New("no state on stdin")
	}
	if err = json.NewDecoder(io.LimitReader(r, maxState)).Decode(&s); err != nil {
		return s, fmt.Errorf("state on stdin: %w", err)
	}
	if s.Pid <= 0 || s.Bundle == "" {
		return s, fmt.Errorf("state on stdin: got pid %d and bundle %q", s.Pid, s.Bundle)
	}
	return s, nil
}

// hook does the work of a start for a container that the real runtime is creating. An error, which it returns only
// with fail_closed, stops the container's start.
func hook(c *command, o Options) error {
	light()
	p := inForce(c)
	s, err := readState(o.Stdin)
	c.container, c.bundle, c.pid = s.ID, s.Bundle, s.Pid
	log := newLogger(c, o.Stderr)
	rec := newRecord(c, &p, o, HookCommand)
	if c.runtime != "" { // from vfix-runtime, which has added the hook
		rec.Runtime, rec.Start, rec.Bundle = c.runtime, c.startID, c.bundle
	}
	if err == nil {
		rec, err = bounded(c, p.Config, o, rec)
	}
	_, err = conclude(c, rec, err, &p, log)
	return err
}

// bounded is prepareSafely with a time limit, because the container's runtime waits for the hook.
func bounded(c *command, config policy.Config, o Options, rec *starts.Record) (*starts.Record, error) {
	limit := config.HookLimit()
	done := make(chan error, 1)
	late := *rec
	go func() { done <- prepareSafely(c, config, o, rec) }()
	select {
	case err := <-done:
		return rec, err
	case <-time.After(limit):
		return &late, fmt.Errorf("not finished within %v", limit)
	}
}
