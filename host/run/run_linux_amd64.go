// Run: how a program is started, and its execution.

package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/find"
)

// choice is how to start a program, and why.
type choice struct {
	program string // of a script: that of its interpreter
	interp  string // its loader, "" for a static program
	way     Way
	why     string
	warning string
}

// Run executes a command in place of this process and returns only if that fails. args[0]
// is looked for as execvp(3) does. The file on disk is not changed.
func Run(args []string, o Options) error {
	file, err := search(args[0])
	if err != nil {
		return err
	}
	c, err := choose(file, 0)
	if err != nil {
		return err
	}
	if err := c.override(o.Way); err != nil {
		return err
	}
	if c.warning != "" && o.Warn != nil {
		o.Warn("%s: %s", c.program, c.warning)
	}
	path, args, env, err := c.command(file, args)
	if err != nil {
		return err
	}
	if o.Explain != nil {
		o.Explain("%s: %s: %s", c.program, c.way, c.why)
	}
	err = syscall.Exec(path, args, env) // it restores the limit of open files, which Go raised
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return hinterr.Errorf(ErrNoCommand, "%s, or its loader: %w", path, err) // the file was there
	}
	return hinterr.Errorf(ErrNotExecutable, "%s: %w", path, err)
}

// choose decides how to start a program, or the interpreter of a script, which is one of a number of scripts.
func choose(path string, scripts int) (*choice, error) {
	c := &choice{program: path}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		c.way, c.why = AsIs, "it may be executed and not read"
		c.warning = "is not readable, so it runs unchanged, and crashes if it calls the page"
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if name := shebang(f); name != "" {
		if scripts == maxScripts {
			return nil, hinterr.Errorf(ErrNotExecutable, "%s: more than %d scripts interpret each other", path, maxScripts)
		}
		interpreter, err := search(name)
		if err != nil {
			return nil, fmt.Errorf("%s: its interpreter: %w", path, err)
		}
		return choose(interpreter, scripts+1)
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	is, err := find.Inspect(f, fi.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.interp = is.Interp
	switch gains := privileges(f, fi); {
	case is.Skipped != nil && is.Skipped.Kind == elf.KindNotELF:
		return nil, hinterr.Errorf(ErrNotExecutable, "%s: neither an ELF file nor a script that names its interpreter", path)
	case is.Skipped != nil && !is.Skipped.MayCall():
		c.way, c.why = AsIs, is.Skipped.String()+", which does not call the page"
	case gains != "" && !(is.Interp != "" && preloadedByHost()):
		c.way, c.why = AsIs, "it "+gains+", and would lose that preloaded or traced"
		c.warning = gains + ", so it runs unchanged; patch the file"
		if is.Interp != "" {
			c.warning += ", or name libvfix.so in /etc/ld.so.preload"
		}
	case is.Skipped != nil:
		c.way, c.why = Trace, is.Skipped.String()+", so its code is not known"
	case is.Static:
		c.way, c.why = Trace, "a static program, which loads no library"
	case is.Go:
		c.way, c.why = Trace, "a Go program, which sets its signal handlers by system calls"
	case is.RawSignals:
		c.way, c.why = Trace, "it sets signal handlers by system calls"
	default:
		c.way, c.why = Preload, "a dynamic program, loaded by "+is.Interp
	}
	return c, nil
}

// override uses the way that the user chose.
func (c *choice) override(want Way) error {
	switch {
	case want == "" || want == Auto || want == c.way:
		return nil
	case want == Preload && c.interp == "":
		return errors.New("--way preload: a static program loads no library")
	}
	c.way, c.why, c.warning = want, "requested; "+c.why, ""
	return nil
}

// privileges says what the kernel gives the program beyond what this process has, "" for nothing.
func privileges(f *os.File, fi fs.FileInfo) string {
	user, group := owner(fi), int(fi.Sys().(*syscall.Stat_t).Gid)
	switch {
	case fi.Mode()&fs.ModeSetuid != 0 && user != os.Geteuid():
		return fmt.Sprintf("is setuid to user %d", user)
	case fi.Mode()&fs.ModeSetgid != 0 && group != os.Getegid():
		return fmt.Sprintf("is setgid to group %d", group)
	}
	if n, err := unix.Fgetxattr(int(f.Fd()), "security.capability", nil); err == nil && n > 0 && os.Geteuid() != 0 {
		return "has file capabilities"
	}
	return ""
}

// command is what to execute: path, arguments and environment.
func (c *choice) command(file string, args []string) (path string, argv, env []string, err error) {
	env = os.Environ()
	if c.way == AsIs || c.way == Preload && preloadedByHost() {
		return file, args, env, nil
	}
	dir, err := materialise()
	if err != nil {
		return "", nil, nil, err
	}
	if c.way == Trace {
		return filepath.Join(dir, addedfiles.Trace), append([]string{addedfiles.Trace, "--"}, args...), env, nil
	}
	library := filepath.Join(dir, addedfiles.Library)
	if has32() && !strings.Contains(c.interp, "ld-musl") { // musl does not know $PLATFORM
		library = filepath.Join(dir, "$PLATFORM", filepath.Base(addedfiles.Library))
	}
	c.why += "; LD_PRELOAD=" + library
	if old := os.Getenv("LD_PRELOAD"); old != "" {
		library = old + ":" + library // an earlier library's sigaction calls ours
	}
	env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "LD_PRELOAD=") })
	return file, args, append(env, "LD_PRELOAD="+library), nil
}

// preloadedByHost reports whether every dynamic program here gets libvfix.so anyway.
func preloadedByHost() bool {
	b, err := os.ReadFile("/" + addedfiles.Preload)
	return err == nil && bytes.Contains(b, []byte("/libvfix.so"))
}

func has32() bool {
	return slices.ContainsFunc(addedfiles.Loaders32, func(name string) bool {
		_, err := os.Stat("/" + name)
		return err == nil
	})
}
