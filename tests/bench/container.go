package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// One start of a container.

// variant is one way to start a container.
type variant struct {
	name    string
	command []string // what the engine executes, in front of runc's own arguments
	vfix    bool     // the container is patched
	hook    bool     // by the hook
	real    bool     // runc makes it: it can be started and deleted
}

// start makes a container, starts and deletes it. It returns how long the first took, and all of it, in
// milliseconds; the second is 0 if there is nothing to start.
func (s *startup) start(v variant) (took [2]float64, err error) {
	spec := s.spec
	if v.hook {
		spec = s.hooked
	}
	undo, err := s.fresh(spec)
	if err != nil {
		return took, err
	}
	defer undo()
	s.n++
	id := fmt.Sprintf("vfix-bench-%d-%d", os.Getpid(), s.n)
	if took[0], err = s.execute(v, "create", "--pid-file", s.pidFile(), "--bundle", s.bundle, id); err != nil {
		return took, err
	}
	if v.vfix {
		err = s.patched(v)
	}
	if err != nil {
		return took, err
	}
	if !v.real {
		if v.vfix { // which keeps a record of a start in /run until somebody deletes the container
			_, err = s.execute(v, "delete", id)
		}
		return took, err
	}
	started, err := s.execute(v, "start", id)
	if err == nil {
		err = s.ended()
	}
	if err != nil {
		return took, err
	}
	deleted, err := s.execute(v, "delete", id)
	took[1] = took[0] + started + deleted
	return took, err
}

func (s *startup) pidFile() string { return filepath.Join(s.b.dir, "pid") }

// ended waits for the end of the container's program.
func (s *startup) ended() error {
	pid, err := os.ReadFile(s.pidFile())
	if err != nil {
		return err
	}
	const patience, pause = 10000, time.Millisecond
	for range patience {
		status, err := os.ReadFile("/proc/" + string(pid) + "/status")
		if err != nil || strings.Contains(string(status), "State:\tZ") {
			return nil
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("process %s of the container does not end", pid)
}

// execute returns how long a command of the runtime took, in milliseconds.
func (s *startup) execute(v variant, args ...string) (float64, error) {
	command := append(slices.Clip(v.command), "--root", filepath.Join(s.b.dir, "runc"))
	cmd := exec.Command(command[0], append(command[1:], args...)...)
	// The container's init keeps what it inherits: files, so that nobody waits for them.
	messages, err := os.Create(filepath.Join(s.b.dir, "messages"))
	if err != nil {
		return 0, err
	}
	defer messages.Close()
	cmd.Stdout, cmd.Stderr = messages, messages
	start := time.Now()
	err = cmd.Run()
	took := time.Since(start)
	if err != nil {
		text, _ := os.ReadFile(messages.Name())
		return 0, fmt.Errorf("%v %v: %w: %s", v.command, args, err, text)
	}
	return float64(took.Microseconds()) / 1e3, nil
}

// patched checks that vfix-runtime did its work: in the upper layer, or by a mount.
func (s *startup) patched(v variant) error {
	if s.lower != "" {
		_, err := os.Stat(filepath.Join(s.bundle, "upper/stubs.so"))
		return err
	}
	file, mount := s.config(), `"/stubs.so"`
	if v.hook {
		pid, err := os.ReadFile(s.pidFile())
		if err != nil {
			return err
		}
		file, mount = "/proc/"+string(pid)+"/mountinfo", " /stubs.so "
	}
	raw, err := os.ReadFile(file)
	if err == nil && !strings.Contains(string(raw), mount) {
		err = fmt.Errorf("%s has no mount at /stubs.so", file)
	}
	return err
}
