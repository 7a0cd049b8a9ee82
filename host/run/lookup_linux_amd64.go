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
	// scriptHead is how much of a script's first line counts (linux/binfmts.h,
	// BINPRM_BUF_SIZE), maxScripts how many scripts may interpret each other
	// (fs/exec.c, exec_binprm).
	scriptHead = 256
	maxScripts = 5
)

// program is the file that a command line starts in the end.
type program struct {
	typed []string // the command line as the user typed it
	path  string   // of the command's file
	file  string   // of the program: path, or the interpreter of the script at path
	args  []string // argv of the program, as the kernel makes it
}

// lookup finds the program that args start.
func lookup(args []string, path string) (*program, error) {
	found, err := search(args[0], path)
	if err != nil {
		return nil, err
	}
	p := &program{typed: args, path: found, file: found, args: args}
	for range maxScripts {
		interp, arg, err := shebang(p.file)
		if err != nil || interp == "" {
			return p, err
		}
		argv := []string{interp}
		if arg != "" {
			argv = append(argv, arg)
		}
		// The kernel hands on the script's path, not what was typed (fs/binfmt_script.c).
		p.args = append(append(argv, p.file), p.args[1:]...)
		if err := executable(interp); err != nil {
			if errors.Is(err, ErrNoCommand) {
				err = hinterr.Errorf(ErrNoCommand, "%s: its interpreter %s: %v", p.file, interp, ErrNoCommand)
			}
			return nil, err
		}
		p.file = interp
	}
	return nil, hinterr.Errorf(ErrNotExecutable, "%s: more than %d scripts interpret each other", found, maxScripts)
}

// search looks for a command in the directories of path, as execvp does: a name with a slash is
// a path already, an empty directory is the current one, and a file that may not be executed
// is passed over but remembered.
func search(name, path string) (string, error) {
	if name == "" {
		return "", hinterr.Errorf(ErrNoCommand, "the command's name is empty")
	}
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	path = cmp.Or(path, defaultPath)
	var denied error
	for _, dir := range strings.Split(path, ":") {
		dir = cmp.Or(dir, ".")
		file := dir + "/" + name
		err := executable(file)
		if err == nil {
			return filepath.Clean(dir) + "/" + name, nil
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

// shebang returns the interpreter that a script names and its one argument; "" for
// other files, and unreadable ones. Source: fs/binfmt_script.c, load_script.
func shebang(file string) (interp, arg string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", "", nil
	}
	defer f.Close()
	head := make([]byte, scriptHead)
	n, _ := f.ReadAt(head, 0)
	if head = head[:n]; !bytes.HasPrefix(head, []byte("#!")) {
		return "", "", nil
	}
	line, _, _ := bytes.Cut(head[2:], []byte("\n"))
	line, _, _ = bytes.Cut(line, []byte("\x00"))
	text := strings.Trim(string(line), " \t")
	if text == "" {
		return "", "", hinterr.Errorf(ErrNotExecutable, "%s: names no interpreter", file)
	}
	interp = text
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		interp, arg = text[:i], strings.Trim(text[i:], " \t")
	}
	return interp, arg, nil
}
