// The conclusions from the facts of a text or a description.

package diagnose

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/internal/kernellog"
)

// readNote explains a read of the page.
const readNote = "most often the program's own crash handler reads the code at the address where the program crashed, after a call of the page " +
	"whose message the kernel left out; a patched program does not get there"

// placeNotes are facts about the kernels of some places.
var placeNotes = map[place]string{
	kata: "the kernel is that of a Kata guest: its log is in the host's journal ('journalctl -t kata'), never in the host's dmesg",
	wsl:  "WSL2 serves the page, slowly, with kernelCommandLine = vsyscall=emulate in the section [wsl2] of .wslconfig",
}

// conclude judges the crashes: first those whose place the kernel or a tracer reports, then the ends that these do not
// explain.
func (t *textFacts) conclude(o Options) []*Crash {
	var all, ends []*Crash
	explained := 0 // ends that the places explain
	for _, c := range t.crashes {
		c.Image = cmp.Or(c.Image, t.image)
		if c.fault == nil || c.traced {
			c.Path = cmp.Or(c.Path, t.path)
		}
		if c.fault == nil {
			ends = append(ends, c)
			continue
		}
		t.judgeFault(c, o)
		all = addAlike(all, c)
	}
	for _, c := range all {
		explained += c.Count
	}
	named := slices.ContainsFunc(ends, func(c *Crash) bool { return c.Container != "" })
	for i, c := range ends {
		if named && c.Container == "" && c.Status == 0 { // what the program's shell said, before its container ended
			continue
		}
		if c.id != "" && o.Here != nil && i < maxHere {
			c.served, c.kernel = o.Here(c.id)
		}
		alike := c.Status == 0 && !c.running || c.Status == segvStatus || c.Status == 128+sigsys
		if explained > 0 && alike && len(c.kernel) == 0 && c.cause == "" {
			explained--
			t.nameFrom(all, c, o)
			continue
		}
		t.judgeEnd(c, o)
		all = addAlike(all, c)
	}
	if len(all) == 0 && t.schema1 != "" {
		all = append(all, t.ofSchema1())
	}
	rank := func(c *Crash) int {
		switch {
		case c.Kind.Page():
			return 0
		case c.Kind.Open():
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b *Crash) int { return rank(a) - rank(b) })
	for _, c := range all {
		if note := placeNotes[t.place]; note != "" && (c.Kind.Page() || c.Kind.Open()) {
			c.note(note)
		}
	}
	return all
}

// addAlike adds a crash to a list, or counts it with one of the same program, cause and container.
func addAlike(all []*Crash, c *Crash) []*Crash {
	for _, old := range all {
		if old.Kind != c.Kind || old.Program != c.Program || old.Function != c.Function || old.Container != c.Container || old.Pod != c.Pod || old.Image != c.Image {
			continue
		}
		again := len(c.PIDs) > 0 && slices.Contains(old.PIDs, c.PIDs[0]) // the kernel has several lines for one crash
		if !again {
			old.Count += c.Count
			if len(old.PIDs) < maxPIDs {
				old.PIDs = append(old.PIDs, c.PIDs...)
			}
		}
		if len(old.Evidence) < maxEvidence {
			old.Evidence = append(old.Evidence, c.Evidence...)
		}
		return all
	}
	return append(all, c)
}

// faultKind returns the kind of a fault, and for Other the cause.
func faultKind(f *kernellog.Fault) (Kind, string) {
	called := functionAt(f.IP) != ""
	switch f.Message {
	case kernellog.Attempted, kernellog.Protection, kernellog.Segfault:
		switch {
		case called && (!f.HasAddr || f.Addr == f.IP):
			return Call, ""
		case inPage(f.IP):
			return Other, "a jump into the vsyscall page, but not to one of its functions"
		case f.HasAddr && inPage(f.Addr):
			return Read, ""
		}
	case kernellog.ReadDenied:
		return Read, ""
	case kernellog.BadCall:
		return Other, "the kernel refused this call of the vsyscall page: it is beside the functions, or its pointer or stack is bad"
	case kernellog.Seccomp:
		if called {
			return Filtered, ""
		}
		return Other, "a seccomp filter refused a system call"
	case kernellog.Abend:
		if f.Signal == sigsegv {
			return Unknown, ""
		}
		return Other, "it ended by " + signalName(f.Signal)
	}
	return Other, fmt.Sprintf("it crashed at %#x, outside the page", f.IP)
}

// judgeFault concludes from the place of a crash.
func (t *textFacts) judgeFault(c *Crash, o Options) {
	c.Confidence = Likely
	var cause string
	switch c.Kind, cause = faultKind(c.fault); c.Kind {
	case Call, Filtered:
		c.called(c.Kind, functionAt(c.fault.IP))
	case Read:
		c.Confidence, c.Verdict = Uncertain, c.who()+" read the vsyscall page as data, which its kernel does not allow"
		if t.suppressed {
			c.note("the kernel left out messages about the page ('callbacks suppressed'): the call may be among them")
		}
		c.note(readNote)
	case Unknown:
		c.Confidence, c.Verdict = Uncertain, c.who()+" ended by SIGSEGV; nothing here shows where"
	default:
		c.Verdict = "not the vsyscall page: " + cause
		return
	}
	t.next(c, o)
}

// next examines the image that is known, and sets the next command.
func (t *textFacts) next(c *Crash, o Options) {
	scanned, name := o.examine(c.Image)
	switch {
	case scanned == nil:
	case c.Function != "" && scanned.calls(c.Function):
		c.Confidence = Certain
		c.note(callers(scanned.Live[c.Function], name, c.Function+"()"))
	case c.Kind == Unknown && scanned.calls(""):
		c.Kind, c.Confidence = Call, Likely
		c.Verdict = fmt.Sprintf("%s probably called the vsyscall page, which its kernel does not serve: %s calls it", c.who(), name)
	case c.Kind == Unknown && scanned.Complete:
		c.Kind, c.Confidence = Other, Likely
		c.Verdict = "not the vsyscall page: no file of " + name + " calls it"
		return
	case c.Kind.Page() && !scanned.calls(""):
		c.note("no file of " + name + " that was examined calls the page: the program is not in it, or loads its code later")
		c.Next = locate(t, c)
		return
	}
	c.Next = o.command(t, c)
}

// callers names a few files.
func callers(files []string, root, what string) string {
	const few = 4
	text := strings.Join(files[:min(len(files), few)], ", ")
	if n := len(files) - few; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("in %s these files call %s: %s", root, what, text)
}

// examine scans the root that the user named, or the image of a crash; nil if that is not possible.
func (o *Options) examine(image string) (s *Scanned, name string) {
	if name = cmp.Or(o.RootName, image); name != "" && o.Scan != nil {
		s = o.Scan(name)
	}
	return s, name
}

// nameFrom adds the names of an end to the crash that explains it.
func (t *textFacts) nameFrom(all []*Crash, e *Crash, o Options) {
	c := all[0]
	if len(all) > 1 || c.Container != "" || e.Container == "" && e.Image == "" && e.Pod == "" || !c.Kind.Page() && !c.Kind.Open() {
		return
	}
	c.Container, c.Pod = e.Container, e.Pod
	if c.Image == "" {
		c.Image = e.Image
		t.next(c, o)
	}
}

// judgeEnd concludes from an exit status or a signal.
func (t *textFacts) judgeEnd(c *Crash, o Options) {
	c.Kind, c.Confidence = Unknown, Uncertain
	k, own := c.message()
	switch {
	case k == nil && c.clear():
		return
	case len(c.mounts) > 0:
		c.Kind, c.Confidence = Mounts, Likely
		c.Verdict = fmt.Sprintf("%s of the host are mounted over those of the image: the program runs with the host's loader and libraries, "+
			"not with its own", strings.Join(c.mounts, " and "))
		c.note("start it without these mounts first; if it then still ends with status 139, the page may be the cause")
		c.Next = o.command(t, c)
	case k != nil:
		c.fault, c.Program, c.Path, c.PIDs, c.Evidence = k.fault, k.Program, k.Path, k.PIDs, append(c.Evidence, k.Evidence...)
		t.judgeFault(c, o)
		if !own && c.Kind.Page() {
			c.Confidence = Likely // a program that the container's program started, or that of another container
		}
	case c.served:
		c.note("the kernel of this machine serves the vsyscall page: a call of it is slow, but no crash")
		c.Next = &Command{"docker run --ulimit core=-1 " + c.Image, "leaves a core where /proc/sys/kernel/core_pattern says: 'vfix diagnose --root " + c.Image + " CORE' explains it"}
	default:
		t.next(c, o)
	}
}

// clear concludes from an end by which the page is not the cause; otherwise it sets the verdict of an unknown one, and
// returns false.
func (c *Crash) clear() bool {
	subject := "the program"
	switch {
	case c.Container != "":
		subject = "the container " + c.Container
	case c.Pod != "":
		subject = "the pod " + c.Pod
	}
	switch {
	case c.running:
		c.Kind, c.Confidence, c.Verdict = None, Certain, subject+" is running"
	case c.cause != "":
		c.Kind, c.Confidence, c.Verdict = Other, Likely, "not the vsyscall page: "+c.cause
	case c.Status == segvStatus:
		c.Verdict = fmt.Sprintf("%s ended by SIGSEGV (exit status %d); nothing here shows where", subject, c.Status)
		return false
	case c.Status != 0:
		c.Kind, c.Confidence, c.Verdict = Other, Likely, fmt.Sprintf("not the vsyscall page: %s ended with exit status %d", subject, c.Status)
	case c.Container != "":
		c.Kind, c.Confidence, c.Verdict = None, Certain, subject+" ended with exit status 0"
	default:
		c.Verdict = subject + " ended by SIGSEGV; nothing here shows where"
		return false
	}
	return true
}

// message returns the crash that the kernel reported at the end of a container, of its own program rather than of another;
// nil if none of its messages is about it. own reports that it is about the container's own program.
func (c *Crash) message() (k *Crash, own bool) {
	for _, line := range c.kernel {
		f, _ := kernellog.Find(line)
		kind, _ := faultKind(&f)
		own = f.Program != "" && strings.HasPrefix(path.Base(c.Path), f.Program)
		if f.Signal != c.Status-128 || c.served && kind == Call || !kind.Page() && !own {
			continue
		}
		if own {
			return faulted(&f, line), true
		}
		k = cmp.Or(k, faulted(&f, line))
	}
	return k, false
}

// ofSchema1 is the conclusion that an engine refuses an image's manifest.
func (t *textFacts) ofSchema1() *Crash {
	image := strings.TrimPrefix(cmp.Or(t.image, "IMAGE"), "docker://")
	return &Crash{
		Kind: Schema1, Confidence: Certain, Count: 1, Image: t.image, Evidence: []string{strings.TrimSpace(t.schema1)},
		Verdict: "no crash: the image has Docker's old manifest (schema 1), which this engine refuses",
		Next:    &Command{"vfix rebuild docker://" + image + " -o docker-daemon:" + image, "reads the old manifest, patches what calls the page, and writes a current image"},
	}
}

// Image concludes from the scan of an image without a known crash.
func Image(image string, s *Scanned, o Options) *Result {
	c := &Crash{Kind: None, Confidence: Certain, Count: 1, Image: image, Verdict: "no file of " + image + " calls the vsyscall page"}
	switch {
	case s.calls(""):
		c.Kind, c.Verdict = Affected, image+" calls the vsyscall page: its programs crash with exit status 139 on kernels that do not serve it"
		c.Next = o.rebuild(image)
		for _, function := range []string{"gettimeofday", "time", "getcpu"} {
			if files := s.Live[function]; len(files) > 0 {
				c.note(callers(files, image, function+"()"))
			}
		}
	case !s.Complete:
		c.Kind, c.Confidence, c.Verdict = Unknown, Uncertain, "no file of "+image+" that was examined calls the vsyscall page, but not all could be examined"
		c.Next = scan(image)
	case s.Dormant:
		c.note("its libc calls the page only in processes without a vDSO (vdso=0)")
	}
	return &Result{Input: image, Crashes: []*Crash{c}}
}

// maxHere is how many containers of a list an engine is asked for.
const maxHere = 20
