// Executing a program in the way that was chosen: traced, preloaded, or as a patched copy in
// memory.

package run

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/inherited"
	"vfix.dev/vfix/internal/fallbackfiles"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/memfile"
)

// starter executes a program the way that was chosen.
type starter struct {
	Options
	p *program
	*choice
	env []string
}

// start executes the program and returns only if that fails.
func (s *starter) start() error {
	if s.way == Trace {
		return s.trace()
	}
	// Programs that it starts in turn are preloaded, whatever kind it is itself.
	how, err := s.preload()
	if err != nil {
		if s.way == Preload {
			s.why = err.Error() + "; " + s.why
			return s.trace()
		}
		how = err.Error() + ", so what it starts is not preloaded"
	}
	if s.way == Memfd {
		return s.memfd(how)
	}
	s.Explain("%s: %s: %s; %s", s.p.file, s.way, s.why, how)
	return execve(s.p.path, s.p.typed, s.env)
}

// trace runs the program under vfix-trace, which comes from memory, or where the system has
// no executable memory files from the directory of libvfix.so.
func (s *starter) trace() error {
	s.Explain("%s: %s: %s", s.p.file, Trace, s.why)
	args := append([]string{fallbackfiles.Trace, "--"}, s.p.typed...)
	fd, err := memfile.New(fallbackfiles.Trace, bytes.NewReader(s.Trace))
	if err == nil {
		if err = execve(fdPath(fd), args, s.env); !forbidden(err) {
			return err
		}
	}
	dir, noDir := s.materialise()
	if noDir != nil {
		return fmt.Errorf("vfix-trace: %w; %w", err, noDir)
	}
	return execve(filepath.Join(dir, fallbackfiles.Trace), args, s.env)
}

// memfd executes the patched copy. Where the system has no executable memory files, the
// program is traced.
func (s *starter) memfd(how string) error {
	fd, err := memfile.New("vfix-run", s.plan.Apply(s.content))
	if err != nil {
		s.why = err.Error() + "; " + s.why
		return s.trace()
	}
	s.Explain("%s: %s: %s; %s", s.p.file, Memfd, s.why, how)
	err = execve(fdPath(fd), s.p.args, s.env)
	if !forbidden(err) {
		return err
	}
	s.why = fmt.Sprintf("a patched copy in memory: %v; %s", err, s.why)
	return s.trace()
}

// forbidden reports whether a file in memory was not executed because a policy forbids it
// (vm.memfd_noexec, SELinux), or because there is no /proc to name it by.
func forbidden(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOENT)
}

func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// execve returns only if it fails. It uses syscall.Exec, not the bare call, because that restores the limit
// of open files that Go raised when vfix started.
func execve(path string, args, env []string) error {
	inherited.Restore()
	err := syscall.Exec(path, args, env)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		// The file was there: what is missing is its loader.
		return hinterr.Errorf(ErrNoCommand, "%s, or its loader: %w", path, err)
	case errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.ELIBBAD):
		return hinterr.Errorf(ErrNotExecutable, "%s: %w", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
