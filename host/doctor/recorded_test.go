package doctor

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/internal/kernellog"
	kept "vfix.dev/vfix/tests/recorded"
)

// Machines that no test machine can be: their files lie in testdata, written after the
// kernel's sources and documentation, and so do the runs of vfix-measure on them:
// measure/VERB_SUBJECT..., where "signal N" or "status N" as the only line is how it ended.

// fileName makes a name that every system's directories can hold.
var fileName = strings.NewReplacer(" ", "_", ":", ".", "/", ".", ",", "")

// recorded is such a machine.
type recorded struct {
	t    *testing.T
	root string
	// with and without replace runs and files by their name.
	runs  map[string]string
	files map[string]string
	Options
	noScratch error
}

func (r *recorded) read(path string) ([]byte, error) {
	if text, ok := r.files[path]; ok {
		if text == "" {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
	// A compressed file is kept as its text.
	if text, err := os.ReadFile(filepath.Join(r.root, path+".text")); err == nil {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(text)
		err = errors.Join(err, w.Close())
		return b.Bytes(), err
	}
	return os.ReadFile(filepath.Join(r.root, path))
}

// list knows the names of the files that are replaced.
func (r *recorded) list(path string) ([]string, error) {
	var names []string
	for file := range r.files {
		if rest, ok := strings.CutPrefix(file, path+"/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// execute is the run that is called "execute"; "error" is that it did not start.
func (r *recorded) execute(ctx context.Context, program []byte) (probe.Outcome, error) {
	if r.runs["execute"] == "error" {
		return probe.Outcome{}, fmt.Errorf("start: %w", syscall.ENOEXEC)
	}
	return r.measure(ctx, program, "execute")
}

// measure finds the run of the longest name that the arguments begin with.
func (r *recorded) measure(ctx context.Context, _ []byte, args ...string) (probe.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return probe.Outcome{}, context.Cause(ctx)
	}
	line := strings.Join(args, " ")
	for n := len(args); n > 0; n-- {
		name := strings.Join(args[:n], " ")
		text, ok := r.runs[name]
		if !ok {
			b, err := os.ReadFile(filepath.Join(r.root, "measure", fileName.Replace(name)))
			if err != nil {
				continue
			}
			text = string(b)
		}
		var o probe.Outcome
		if _, err := fmt.Sscanf(text, "signal %d", &o.Signal); err == nil {
			return o, nil
		}
		if _, err := fmt.Sscanf(text, "status %d", &o.Status); err == nil {
			return o, nil
		}
		o.Stdout = []byte(text)
		return o, nil
	}
	r.t.Errorf("%s: no run of vfix-measure %s is recorded", r.root, line)
	return probe.Outcome{Status: 1}, nil
}

func (r *recorded) start(context.Context, ...string) (func() (string, error), func() (probe.Outcome, error), error) {
	return func() (string, error) { return "flooded 1", nil }, func() (probe.Outcome, error) { return probe.Outcome{}, nil }, nil
}

func (r *recorded) kernelLog(context.Context) ([]kernellog.Line, string, error) {
	b, err := r.read("/kernel.log")
	if err != nil {
		// As here does: every place that was tried.
		return nil, "", errors.Join(fmt.Errorf("/dev/kmsg: %w", fs.ErrPermission), fmt.Errorf("/var/log/kern.log: %w", fs.ErrNotExist))
	}
	return stripLines(string(b)), "/dev/kmsg", nil
}

func (r *recorded) scratch(string) (string, func() error, error) {
	return "/scratch", func() error { return nil }, r.noScratch
}

// examineRecorded makes checks on a machine of testdata.
func examineRecorded(t *testing.T, r *recorded, names ...string) map[string]Check {
	t.Helper()
	r.t, r.root = t, filepath.Join("testdata", r.root)
	r.Checks, r.Limit = names, time.Minute
	report, err := examine(t.Context(), r, r.Options)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Check{}
	for _, c := range report.Checks {
		all[c.Name] = c
	}
	if len(all) != len(names) {
		t.Fatalf("%s: got %d checks, want %d", r.root, len(all), len(names))
	}
	return all
}

// said has what the checks of a test said, by its name.
var said = map[string]*strings.Builder{}

// expect checks a verdict and that words are in what is said, all of which is recorded in testdata/checks.
func expect(t *testing.T, c Check, v Verdict, words ...string) {
	t.Helper()
	if said[t.Name()] == nil {
		said[t.Name()] = &strings.Builder{}
		t.Cleanup(func() {
			kept.Text(t, "checks/"+fileName.Replace(t.Name()), said[t.Name()].String())
			delete(said, t.Name())
		})
	}
	w := said[t.Name()]
	fmt.Fprintf(w, "%s: %s: %s\n  means: %s\n  do: %s\n", c.Name, c.Verdict, c.Found, c.Means, c.Do)
	for _, f := range c.Figures {
		fmt.Fprintf(w, "  figure: %s: %.6g %s\n", f.Name, f.Value, f.Unit)
	}
	for _, f := range c.Facts {
		fmt.Fprintf(w, "  fact: %s: %s\n", f.Name, f.Value)
	}
	for _, l := range c.Lines {
		fmt.Fprintf(w, "  line: %s\n", l)
	}
	for _, n := range c.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	if c.Verdict != v {
		t.Errorf("%s: got %s (%s), want %s", c.Name, c.Verdict, c.Found, v)
	}
	for _, text := range append([]string{c.Found}, c.Notes...) {
		if strings.Contains(text, "\n") {
			t.Errorf("%s: %q: got several lines, want one", c.Name, text)
		}
	}
	text := strings.Join(append([]string{c.Found, c.Means, c.Do}, append(c.Notes, c.Lines...)...), "\n")
	for _, w := range words {
		not, without := strings.CutPrefix(w, "!")
		if strings.Contains(text, not) == without {
			t.Errorf("%s: %q in what is said: %v, want %v:\n%s", c.Name, not, !without, without, text)
		}
	}
}

// TestLASS: a processor with LASS, an xonly kernel: the advice against emulate.
func TestLASS(t *testing.T) {
	c := examineRecorded(t, &recorded{root: "lass"}, Vsyscall)[Vsyscall]
	expect(t, c, Warn, "xonly", "LASS on", "vsyscall=emulate would turn it off")
	c = examineRecorded(t, &recorded{root: "lass", runs: map[string]string{"probe page:time": "signal 11"}, files: map[string]string{
		"/proc/self/maps": "7ffd0000-7ffd1000 r-xp 00000000 00:00 0    [vdso]\n",
	}}, Vsyscall)[Vsyscall]
	expect(t, c, Fail, "none: a call ends in SIGSEGV", "vsyscall=xonly", "would turn it off")
	c = examineRecorded(t, &recorded{root: "lass", files: map[string]string{"/proc/cpuinfo": "flags\t: fpu classy\n"}}, Vsyscall)[Vsyscall]
	expect(t, c, Warn, "!LASS on")
}

// TestNoEmulation: a kernel without CONFIG_X86_VSYSCALL_EMULATION takes no notice of the
// boot option.
func TestNoEmulation(t *testing.T) {
	c := examineRecorded(t, &recorded{root: "noemulation"}, Vsyscall)[Vsyscall]
	expect(t, c, Fail, "without CONFIG_X86_VSYSCALL_EMULATION", "silently ignores vsyscall=emulate", "!or boot")
	config := map[string]string{"/boot/config-6.12.9-hardened": ""}
	c = examineRecorded(t, &recorded{root: "noemulation", files: config}, Vsyscall)[Vsyscall]
	expect(t, c, Fail, "silently ignores vsyscall=emulate", "configuration is not readable")
	config["/proc/cmdline"] = "quiet -- vsyscall=emulate"
	c = examineRecorded(t, &recorded{root: "noemulation", files: config}, Vsyscall)[Vsyscall]
	expect(t, c, Fail, "or boot the host with vsyscall=xonly", "!ignores")
}

// TestXen: a paravirtual clock that the vDSO cannot read, with tsc available.
func TestXen(t *testing.T) {
	all := examineRecorded(t, &recorded{root: "xen"}, VDSO, Clock)
	expect(t, all[Clock], Fail, "xen: every read is a system call, which costs 310 ns", "shared by the hypervisor", "echo tsc >")
	expect(t, all[VDSO], Fail, "4 of 7 functions enter the kernel", "gettimeofday")
	c := examineRecorded(t, &recorded{root: "xen", files: map[string]string{
		"/sys/devices/system/clocksource/clocksource0/available_clocksource": "xen\n",
	}}, Clock)[Clock]
	expect(t, c, Fail, "another instance type", "!echo")
	// A hypervisor whose TSC is stable: the same name, and no entry.
	c = examineRecorded(t, &recorded{root: "xen", runs: map[string]string{
		"entries vdso:monotonic vdso:realtime": "vdso:monotonic 0/1000\nvdso:realtime 0/1000\n",
	}}, Clock)[Clock]
	expect(t, c, OK, "xen: a read costs 310 ns")
}

// TestWSL2: Microsoft's kernel has vsyscall=none unless .wslconfig says otherwise.
func TestWSL2(t *testing.T) {
	all := examineRecorded(t, &recorded{root: "wsl2"}, Vsyscall, Clock, KernelLog)
	if want := (Fact{"build_default", "none"}); !slices.Contains(all[Vsyscall].Facts, want) {
		t.Errorf("got %v, want %v", all[Vsyscall].Facts, want)
	}
	expect(t, all[Vsyscall], Fail, "none", "kernelCommandLine", ".wslconfig")
	expect(t, all[Clock], OK, "hyperv_clocksource_tsc_page")
	expect(t, all[KernelLog], Fail, "1 process crashed", "sh[512]  time() at 0xffffffffff600400")
}

// TestNative: a kernel before 4.17 with the page as it once was.
func TestNative(t *testing.T) {
	quick := map[string]string{"peek": "peek 0x48\n", "time": "page:time 70\nsyscall:time 68\nvdso:time 3\n"}
	r := &recorded{root: "native", runs: quick}
	expect(t, examineRecorded(t, r, Vsyscall)[Vsyscall], Warn, "native: a call of time() costs 70 ns")
	r = &recorded{root: "lass", runs: quick} // later ones have no such page, however a loaded machine times it
	expect(t, examineRecorded(t, r, Vsyscall)[Vsyscall], Warn, "emulate: a call of time() costs 70 ns")
	r = &recorded{root: "lass", runs: map[string]string{"peek": "peek 0x48\n"}}
	expect(t, examineRecorded(t, r, Vsyscall)[Vsyscall], Warn, "emulate: a call", "LASS stays off")
	r = &recorded{root: "lass", runs: map[string]string{"probe page:time": "signal 31"}}
	expect(t, examineRecorded(t, r, Vsyscall)[Vsyscall], Fail, "seccomp filter ends the caller", "159")
}

// TestBare: no /proc, no /sys, no log, as in a chroot.
func TestBare(t *testing.T) {
	r := &recorded{root: "bare"}
	all := examineRecorded(t, r, Vsyscall, Clock, Dentry, KernelLog)
	expect(t, all[Vsyscall], Warn, "configuration is not readable")
	expect(t, all[Clock], OK, "unknown clock source", "/sys is not mounted")
	expect(t, all[Dentry], OK, "not readable", "cache's size is not known")
	expect(t, all[KernelLog], Skipped, "not readable", "as root")
}

// TestDentryVerdicts: each threshold.
func TestDentryVerdicts(t *testing.T) {
	const busy = "known 2000\n"
	for _, c := range []struct {
		state, lookup string
		log           string
		verdict       Verdict
		word          string
	}{
		{"900 800 45 0 100 0", "known 700\n", "Dentry cache hash table entries: 1024 (order: 1, 8192 bytes, linear)\n", OK, "0.9 names in a bucket"},
		{"3000 800 45 0 100 0", "known 700\n", "[    0.1] Dentry cache hash table entries: 1024 (order: 1, 8192 bytes, linear)\n", Warn, "2.9 names"},
		{"90000 800 45 0 100 0", "known 700\n", "Dentry cache hash table entries: 1024 (order: 1, 8192 bytes, linear)\n", Fail, "87.9 names"},
		{"90000 800 45 0 100 0", busy, "Dentry cache hash table entries: many\n", Fail, "drop_caches"},
	} {
		r := &recorded{root: "bare", runs: map[string]string{"lookup": c.lookup}, files: map[string]string{
			"/proc/sys/fs/dentry-state": c.state + "\n", "/kernel.log": c.log, "/proc/cmdline": "dhash_entries=1000\n",
		}}
		expect(t, examineRecorded(t, r, Dentry)[Dentry], c.verdict, c.word)
	}
}

// TestLimit: a check that hangs is given up, and the others are made.
func TestLimit(t *testing.T) {
	hang := &hanging{recorded{t: t, root: filepath.Join("testdata", "bare")}}
	report, err := examine(t.Context(), hang, Options{Checks: []string{Vsyscall, KernelLog}, Limit: 50 * time.Millisecond})
	if err != nil || len(report.Checks) != 2 {
		t.Fatalf("got %+v, %v", report, err)
	}
	expect(t, report.Checks[0], Skipped, "took longer than 50ms")
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := examine(ctx, hang, Options{Limit: time.Minute}); !errors.Is(err, stopped) {
		t.Errorf("stopped by its caller: got %v", err)
	}
}

// hanging is a machine on which nothing ends.
type hanging struct{ recorded }

func (h *hanging) measure(ctx context.Context, _ []byte, _ ...string) (probe.Outcome, error) {
	<-ctx.Done()
	return probe.Outcome{}, context.Cause(ctx)
}
