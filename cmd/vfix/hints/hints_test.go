package hints

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vfix.dev/vfix/internal/hinterr"
)

// Each row of the table has its hint, and errors of networks and systems have theirs.
func TestOf(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	t.Setenv("TMPDIR", gone)
	at := func(path string) error { return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist} }
	type row struct {
		err  error
		hint string
	}
	rows := []row{
		{hinterr.With(fs.ErrExist, "its own"), "its own"},
		{at(gone + "/x"), "temporary files go to " + gone + ", which does not exist: set TMPDIR to a directory that does"},
		{at(gone + "x"), "check the spelling; see 'vfix help sources'"},
		{&net.DNSError{}, "check the name of the registry and this machine's DNS"},
		{&net.OpError{Err: errors.New("x")}, "check the address, and that this machine can reach the daemon or registry"},
		{syscall.EMFILE, "the operating system refuses this: check the limits (ulimit -a) and the file system (mount, dmesg)"},
		{errors.New("x"), "if this is a bug in vfix, report it at URL with the output of 'vfix version'"},
		{syscall.EPERM, "run vfix as the owner of the file, or as root"},
	}
	if os.Geteuid() == 0 {
		rows[len(rows)-1].hint = "not permitted, even for root: check whether the file is immutable (lsattr), and which capabilities vfix has"
	}
	for _, r := range hintTable {
		rows = append(rows, row{r.is, r.hint})
	}
	for _, r := range rows {
		if got := Of(fmt.Errorf("x: %w", r.err), "URL"); got != r.hint {
			t.Errorf("%v: got %q, want %q", r.err, got, r.hint)
		}
	}
	if got := Of(errors.New("x"), ""); strings.Contains(got, " at ") {
		t.Errorf("got %q", got)
	}
	t.Setenv("TMPDIR", filepath.Dir(gone))
	if got := Of(at(gone), ""); got != "check the spelling; see 'vfix help sources'" {
		t.Errorf("with a TMPDIR: got %q", got)
	}
}
