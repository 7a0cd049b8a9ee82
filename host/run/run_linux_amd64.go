// Run, and the choice of how a program is started.

package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/rewriter/find"
	"vfix.dev/vfix/rewriter/patch"
)

// Run starts a command in place of this process and returns only if that fails.
// args[0] is looked for as execvp(3) does. The file on disk is not touched.
func Run(args []string, o Options) error {
	if o.Explain == nil {
		o.Explain = func(string, ...any) {}
	}
	if o.Warn == nil {
		o.Warn = func(string, ...any) {}
	}
	p, err := lookup(args, os.Getenv("PATH"))
	if err != nil {
		return err
	}
	c, err := choose(p, o.Way)
	if err != nil {
		return err
	}
	if c.warning != "" {
		o.Warn("%s: %s", p.file, c.warning)
	}
	s := &starter{Options: o, p: p, choice: c, env: os.Environ()}
	return s.start()
}

// choice is how to start a program, and why.
type choice struct {
	way     Way
	why     string
	warning string
	musl    bool // its loader is musl's
	plan    *patch.Plan
	content *os.File // of the program, for Memfd
}

// choose decides how to start a program.
func choose(p *program, want Way) (*choice, error) {
	f, err := os.Open(p.file)
	if errors.Is(err, fs.ErrPermission) {
		return &choice{way: AsIs, why: "it may be executed and not read", warning: "was not examined, because it is not readable: it runs as it is, and crashes if it calls the page"}, nil
	}
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	is, err := find.Inspect(f, fi.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.file, err)
	}
	switch {
	case is.Skipped == nil:
	case is.Skipped.Kind == find.SkipNotELF:
		return nil, hinterr.Errorf(ErrNotExecutable, "%s: neither an ELF file nor a script that names its interpreter", p.file)
	case is.Skipped.MayCall():
		return &choice{way: Trace, why: is.Skipped.String() + ": its code cannot be seen"}, nil
	default:
		return &choice{way: AsIs, why: is.Skipped.String() + ": no program that calls the page"}, nil
	}
	if gains := privileges(f, fi); gains != "" && (is.Static || !preloadedByHost()) {
		return &choice{way: AsIs, why: "it gains privileges when executed (" + gains + "), and would not as a copy, preloaded or traced",
			warning: "runs as it is, since it " + gains + "; patch it in place, or name libvfix.so in /etc/ld.so.preload"}, nil
	}
	c, err := chooseELF(f, fi.Size(), is)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.file, err)
	}
	return c, c.override(want, is)
}

// chooseELF decides about a 64-bit x86-64 program.
func chooseELF(f *os.File, size int64, is *find.Program) (*choice, error) {
	if !is.Static {
		c := &choice{way: Preload, why: "dynamic, loaded by " + is.Interp, musl: strings.Contains(is.Interp, "ld-musl")}
		switch {
		case is.Go:
			c.way, c.why = Trace, "made by Go, which sets its signal handlers by system calls of its own: no preload reaches it"
		case is.RawSignals:
			c.way, c.why = Trace, "it sets up signals by system calls of its own: no preload reaches it"
		}
		return c, nil
	}
	report, err := patch.Scan(f, size)
	if err != nil {
		return nil, err
	}
	plan, err := patch.NewPlan(report, patch.Options{})
	if err != nil {
		return nil, err
	}
	left := len(plan.LeftOver())
	switch {
	case left > 0:
		return &choice{way: Trace, why: fmt.Sprintf("static, and %d of its call sites cannot be patched", left)}, nil
	case plan.Empty() && packed(f):
		return &choice{way: Trace, why: "static, and compressed with UPX: its code cannot be seen"}, nil
	case plan.Empty():
		return &choice{way: AsIs, why: "static, and nothing in it calls the page"}, nil
	}
	return &choice{way: Memfd, why: fmt.Sprintf("static, all of its call sites can be patched (%d)", patched(plan)), plan: plan, content: f}, nil
}

// packed reports whether a program has the mark of UPX (src/conf.h), behind its program headers.
func packed(f *os.File) bool {
	var head [1024]byte
	n, _ := f.ReadAt(head[:], 0)
	return bytes.Contains(head[:n], []byte("UPX!"))
}

func patched(p *patch.Plan) int {
	n := 0
	for _, q := range p.Patches {
		if q.Form != patch.Left {
			n++
		}
	}
	return n
}

// override uses the way that the user chose.
func (c *choice) override(want Way, is *find.Program) error {
	switch {
	case want == "" || want == Auto || want == c.way:
		return nil
	case want == Trace:
	case want == Preload && is.Static:
		return errors.New("--way preload: a static program does not load libraries")
	case want == Memfd && !is.Static:
		return errors.New("--way memfd: a dynamic program, whose libraries also have call sites")
	case want == Memfd:
		return errors.New("--way memfd: " + c.why)
	}
	c.way, c.why = want, "asked for; "+c.why
	return nil
}

// privileges says what the kernel would give the program beyond what this process has, ""
// for nothing. Such a program ignores LD_PRELOAD, and loses them as a copy or traced.
func privileges(f *os.File, fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	groups, _ := os.Getgroups()
	switch {
	case fi.Mode()&fs.ModeSetuid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Sprintf("is setuid to user %d", st.Uid)
	case fi.Mode()&fs.ModeSetgid != 0 && int(st.Gid) != os.Getegid() && !slices.Contains(groups, int(st.Gid)):
		return fmt.Sprintf("is setgid to group %d", st.Gid)
	}
	if n, err := unix.Fgetxattr(int(f.Fd()), "security.capability", nil); err == nil && n > 0 && os.Geteuid() != 0 {
		return "has file capabilities"
	}
	return ""
}
