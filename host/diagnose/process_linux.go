// The reports of /proc about a process, and of /dev/kmsg about the kernel. Sources: proc(5),
// Documentation/ABI/testing/dev-kmsg.

package diagnose

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/internal/rootpath"
)

const (
	// maxLine is the longest line of /proc/PID/maps, in bytes: a path has at most 4 KiB.
	maxLine = 64 << 10
	// maxMaps is how much of /proc/PID/maps is read, in bytes.
	maxMaps = 64 << 20
)

// kernelLog reads the kernel's log, oldest message first.
func kernelLog() ([]logEntry, error) {
	records, err := kernellog.Read("/dev/kmsg")
	if err != nil {
		return nil, err
	}
	boot, err := bootTime()
	if err != nil {
		return nil, err
	}
	all := make([]logEntry, len(records))
	for i, r := range records {
		all[i] = logEntry{boot.Add(r.At), r.Text}
	}
	return all, nil
}

// bootTime is when the clock of the kernel's log was 0.
func bootTime() (time.Time, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(-time.Duration(t.Nano())), nil
}

// sameBoot reports whether a boot ID is that of this machine's current boot.
func sameBoot(id string) bool {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return err == nil && id != "" && strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "") == id
}

// pageHere reports whether processes of this machine have the page.
func pageHere() pageState {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return pageUnknown
	}
	defer maps.Close()
	co, _, err := parseMaps(maps)
	if err != nil {
		return pageUnknown
	}
	return co.page()
}

// liveProcess diagnoses a running process, nil without one.
func liveProcess(input string, pid int, o Options) (*Crash, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	status, err := os.ReadFile(dir + "/status")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &Crash{Input: input, Source: Process, Count: 1, PIDs: []int{pid}, TID: pid}
	c.Program = statusField(status, "Name")
	state := statusField(status, "State")
	if strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
		return nil, nil // it has ended; the log may have its crash
	}
	c.Executable, _ = os.Readlink(dir + "/exe")
	cmdline, _ := os.ReadFile(dir + "/cmdline")
	args := strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
	c.Command = quote.Words(args)
	maps, err := os.Open(dir + "/maps")
	if err != nil {
		return nil, needsRoot(err)
	}
	defer maps.Close()
	co, f, err := parseMaps(io.LimitReader(maps, maxMaps))
	if err != nil {
		return nil, needsRoot(err)
	}
	c.Page = co.page()
	stopped := strings.HasPrefix(state, "t") || strings.HasPrefix(state, "T") || strings.HasPrefix(state, "D")
	f.rsp, f.rip = registers(dir)
	if !stopped || !inPage(f.rip) {
		c.Kind = None
		c.Meaning = fmt.Sprintf("Still running (state %s) and not stopped in the vsyscall page: it has not crashed.", state)
		c.note("'vfix scan %s' shows whether it and its libraries call the page", quote.Shell(scanned(dir, c.Executable, o)))
		return c, nil
	}
	c.IP, c.SP, c.Known = f.rip, f.rsp, Known{IP: true, SP: true}
	mem, err := os.Open(dir + "/mem")
	if err != nil {
		return nil, needsRoot(err)
	}
	defer mem.Close()
	co.r = mem
	c.Signal = sigsegv
	c.judge(evidence{signal: sigsegv, code: 1, fault: f.rip, ip: f.rip, stack: true})
	if c.Kind == Call {
		c.note("no signal is recorded: the process is stopped at the call, before or after the signal")
		if c.Page == pageMapped {
			c.called(Trap, functionAt(f.rip))
		}
		if o.RootName == "" || o.Root == nil {
			if root, err := rootpath.OpenDir(dir + "/root"); err == nil {
				defer root.Close()
				o.Root, o.elsewhere = root, !sameDir(dir+"/root/", "/")
			}
		}
		c.findCaller(co, f, o)
	}
	c.fix(o, args)
	return c, nil
}

// sameDir reports whether two paths lead to the same directory: a process in a container has another root, in
// which its paths are other files.
func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

func needsRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return refused(err.Error(), "run vfix as root, or as the owner of the process")
	}
	return err
}

// statusField returns a value of /proc/PID/status.
func statusField(status []byte, key string) string {
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// registers returns the stack pointer and the instruction pointer of a process that does not run, 0 for others:
// the last two words of /proc/PID/syscall.
func registers(dir string) (sp, pc uint64) {
	b, err := os.ReadFile(dir + "/syscall")
	words := strings.Fields(string(b))
	if err != nil || len(words) < 3 {
		return 0, 0
	}
	sp, _ = strconv.ParseUint(words[len(words)-2], 0, 64)
	pc, _ = strconv.ParseUint(words[len(words)-1], 0, 64)
	return sp, pc
}

// parseMaps reads /proc/PID/maps: the memory, whose offsets in /proc/PID/mem are its addresses, and the mapped
// files.
func parseMaps(r io.Reader) (*core, *facts, error) {
	co, f := &core{byKernel: true}, &facts{thread: true, mappings: []mapping{}}
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		words := strings.Fields(s.Text())
		if len(words) < 5 {
			continue
		}
		from, to, _ := strings.Cut(words[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		offset, err3 := strconv.ParseUint(words[2], 16, 64)
		if err1 != nil || err2 != nil || err3 != nil || end <= start {
			continue
		}
		co.loads = append(co.loads, segment{typ: ptLoad, off: start, vaddr: start, filesz: end - start, memsz: end - start})
		if i := strings.IndexByte(s.Text(), '/'); i >= 0 {
			f.mappings = append(f.mappings, mapping{start, end, offset, s.Text()[i:]})
		}
	}
	return co, f, s.Err()
}

// scanned returns what to scan for a file that the process of a directory of /proc has mapped. For a process in a
// container, this machine has another file at that path, or none.
func scanned(dir, path string, o Options) string {
	switch {
	case o.IsImage:
		return o.RootName
	case !sameDir(dir+"/root/", "/"):
		return dir + "/root" + path
	}
	return path
}

// hostMemory returns the memory of this machine in bytes.
func hostMemory() (uint64, bool) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0, false
	}
	return uint64(info.Totalram) * uint64(info.Unit), true
}
