// Interpreters of binfmt_misc with the flag F, which the kernel has opened when they were registered: every container has
// them, whatever its own files are (Documentation/admin-guide/binfmt-misc.rst).

package ociruntime

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/internal/memfile"
	"vfix.dev/vfix/internal/nodefile"
)

// noteInterpreters notes the interpreters with the flag F that call the page, or cannot be examined.
func (k *container) noteInterpreters(keep indexes) error {
	all, registrations, err := interpreters()
	if err != nil || len(all) == 0 {
		return err
	}
	key := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "interpreters\n%s\n%s\n%s", keep.maker, store.BootID(), registrations)))
	x := keep.read(key)
	if x == nil {
		x = &index{}
		for _, members := range all {
			if u := k.lookAtInterpreter(keep, members); u.Reason != "" {
				x.Unread = append(x.Unread, u)
			}
		}
		if !slices.ContainsFunc(x.Unread, passing) {
			keep.write(key, x)
		}
	}
	for _, u := range x.Unread {
		k.rec.Add("", fmt.Sprintf("binfmt_misc: interpreter %s (flag F): %s", u.Name, u.Reason))
	}
	return nil
}

// interpreters returns the members of the entries with the flag F, and what identifies the registrations: each has an
// inode of its own until the machine starts again.
func interpreters() (all []map[string]string, registrations string, err error) {
	const usual = "/proc/sys/fs/binfmt_misc"
	dir := usual
	if _, err := os.Lstat(dir + "/status"); err != nil { // it is not mounted; entries stay nevertheless
		known, err := nodefile.Text("/proc/filesystems")
		if err != nil || !strings.Contains(string(known), "\tbinfmt_misc\n") || policy.Rootless() {
			return nil, "", err
		}
		fd, err := detachedMount("binfmt_misc")
		if err != nil {
			return nil, "", fmt.Errorf("binfmt_misc: %w", err)
		}
		defer unix.Close(fd)
		dir = "/proc/self/fd/" + strconv.Itoa(fd)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", err
	}
	for _, f := range files {
		if f.Name() == "register" || f.Name() == "status" {
			continue
		}
		var st unix.Stat_t
		path := filepath.Join(dir, f.Name())
		text, err := nodefile.Text(path)
		if err := errors.Join(err, unix.Stat(path, &st)); err != nil {
			return nil, "", err
		}
		members := map[string]string{}
		for line := range strings.Lines(string(text)) {
			member, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			members[member] = value
		}
		if _, enabled := members["enabled"]; enabled && strings.Contains(members["flags:"], "F") {
			all = append(all, members)
			registrations += fmt.Sprintf("%d %d %q\n", st.Ino, st.Ctim.Nano(), text)
		}
	}
	return all, registrations, nil
}

// lookAtInterpreter returns why an interpreter counts as not examined; no reason if it does not call the page.
func (k *container) lookAtInterpreter(keep indexes, members map[string]string) unread {
	path := members["interpreter"]
	bad := func(reason string, passing bool) unread {
		return unread{Name: []byte(path), Reason: reason, passing: passing}
	}
	magic, err := hex.DecodeString(members["magic"])
	offset, oerr := strconv.Atoi(members["offset"])
	if err := errors.Join(err, oerr); err != nil || len(magic) == 0 {
		return bad("for names, not for contents: not examined", false)
	}
	fd, err := interpreterOf(append(make([]byte, offset), magic...), filepath.Base(path))
	if err != nil {
		return bad("not examined: "+err.Error(), true)
	}
	defer unix.Close(fd)
	found, err := keep.file(k.root, fd)
	switch {
	case err != nil:
		return bad("not examined: "+err.Error(), true)
	case len(found.Unread) > 0:
		return bad(found.Unread[0].Reason, found.Unread[0].passing)
	case len(found.Legacy) > 0:
		return bad("it calls the vsyscall page", false)
	}
	return unread{}
}

// interpreterOf opens the program with which the kernel starts a file, which may have another path by now, or none. The
// program is stopped before its first instruction, and killed.
func interpreterOf(file []byte, name string) (fd int, err error) {
	content, err := memfile.New("vfix", bytes.NewReader(file))
	if err != nil {
		return -1, err
	}
	defer unix.Close(content)
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	at := "/proc/self/fd/" + strconv.Itoa(content)
	pid, err := syscall.ForkExec(at, []string{at}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: unix.SIGKILL}})
	if err != nil {
		return -1, err
	}
	defer func() {
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}()
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil { // its stop
		return -1, err
	}
	exe := fmt.Sprintf("/proc/%d/exe", pid)
	is, err := os.Readlink(exe)
	if err != nil {
		return -1, err
	}
	if filepath.Base(strings.TrimSuffix(is, deleted)) != name {
		return -1, fmt.Errorf("another interpreter, %s, has precedence", is)
	}
	return unix.Open(exe, unix.O_PATH|unix.O_CLOEXEC, 0)
}
