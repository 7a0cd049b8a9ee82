// Finding the file that a command line starts, as execvp(3) and the kernel do.

package run

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/hinterr"
)

const (
	// defaultPath is where execvp looks without PATH (glibc, _CS_PATH).
	defaultPath = "/bin:/usr/bin"
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

// lookup finds the program that args start.
func lookup(args []string, path string) (*command, error) {
	found, err := search(args[0], path)
	if err != nil {
		return nil, err
	}
	c := &command{path: found, program: found}
	for range maxScripts {
		interp := shebang(c.program)
		if interp == "" {
			return c, nil
		}
		if err := executable(interp); err != nil {
			if errors.Is(err, ErrNoCommand) {
				err = hinterr.Errorf(ErrNoCommand, "%s: its interpreter %s: %v", c.program, interp, ErrNoCommand)
			}
			return nil, err
		}
		c.program = interp
	}
	return nil, hinterr.Errorf(ErrNotExecutable, "%s: more than %d scripts interpret each other", found, maxScripts)
}

// search looks for a command in the directories of path, as execvp does: a name with a slash is a path already, an
// empty directory is the current one, and a file that may not be executed is remembered.
func search(name, path string) (string, error) {
	if name == "" {
		return "", hinterr.Errorf(ErrNoCommand, "the command's name is empty")
	}
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	var denied error
	for _, dir := range strings.Split(cmp.Or(path, defaultPath), ":") {
		file := filepath.Clean(cmp.Or(dir, ".")) + "/" + name
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, ErrNotExecutable) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", hinterr.Errorf(ErrNoCommand, "%s: %v in any directory of PATH", name, ErrNoCommand)
}

// executable reports whether the kernel would execute a file for this user.
func executable(file string) error {
	fi, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return hinterr.Errorf(ErrNoCommand, "%s: %v", file, ErrNoCommand)
	case err != nil:
		return hinterr.Errorf(ErrNotExecutable, "%v", err)
	case !fi.Mode().IsRegular():
		return hinterr.Errorf(ErrNotExecutable, "%s: not a file", file)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS); err != nil {
		return hinterr.Errorf(ErrNotExecutable, "%s: %v", file, err)
	}
	return nil
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
