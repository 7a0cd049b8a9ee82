// Finding the file that a command line starts, as execvp(3) and the kernel do.

package run

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/hinterr"
)

const (
	// scriptHead is how much of a script's first line counts (linux/binfmts.h, BINPRM_BUF_SIZE), maxScripts how
	// many scripts may interpret each other (fs/exec.c, exec_binprm).
	scriptHead = 256
	maxScripts = 5
)

// command is the file that a command line starts in the end.
type command struct {
	path    string // of the command's file
	program string // path, or the interpreter of the script at path
}

// lookup finds the program that a command starts.
func lookup(name string) (*command, error) {
	found, err := search(name)
	if err != nil {
		return nil, err
	}
	c := &command{path: found, program: found}
	for range maxScripts {
		interp := shebang(c.program)
		if interp == "" {
			return c, nil
		}
		if _, err := search(interp); errors.Is(err, ErrNoCommand) {
			return nil, hinterr.Errorf(ErrNoCommand, "%s: its interpreter %s: %v", c.program, interp, ErrNoCommand)
		} else if err != nil {
			return nil, err
		}
		c.program = interp
	}
	return nil, hinterr.Errorf(ErrNotExecutable, "%s: more than %d scripts interpret each other", found, maxScripts)
}

// search looks for a command in the directories of PATH; a name with a slash is a path already.
func search(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // a user who has it in PATH wants it
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return "", hinterr.Errorf(ErrNoCommand, "%s: %v", name, ErrNoCommand)
	}
	return "", hinterr.Errorf(ErrNotExecutable, "%s: %w", name, errors.Unwrap(err))
}

// shebang returns the interpreter that a script names; "" for other files, and unreadable ones. Source:
// fs/binfmt_script.c, load_script.
func shebang(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, scriptHead)
	n, _ := f.ReadAt(head, 0)
	line, isScript := bytes.CutPrefix(head[:n], []byte("#!"))
	if !isScript {
		return ""
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' || r == 0 })
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
