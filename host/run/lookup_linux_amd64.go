// Finding the file that a command line starts, as execvp(3) and the kernel do.

package run

import (
	"errors"
	"io"
	"io/fs"
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

// shebang returns the interpreter that a script names; "" for other files. Source: fs/binfmt_script.c, load_script.
func shebang(file io.ReaderAt) string {
	head := make([]byte, scriptHead)
	n, _ := file.ReadAt(head, 0)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	rest, isScript := strings.CutPrefix(line, "#!")
	words := strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' || r == 0 })
	if !isScript || len(words) == 0 {
		return ""
	}
	return words[0]
}
