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

// conclude turns the facts into crashes: first the places that the kernel or a tracer reports, then the ends that
// these do not explain, then other causes.
func (t *textFacts) conclude(o Options) []*Crash {
	var all []*Crash
	for _, f := range t.faults {
		all = addAlike(all, t.ofFault(f, o))
	}
	explained := 0 // ends that the faults explain
	for _, c := range all {
		explained += c.Count
	}
	named := slices.ContainsFunc(t.ends, func(e end) bool { return e.container != "" })
	for i, e := range t.ends {
		if named && e.container == "" && e.status == 0 { // what the program's shell said, before its container ended
			continue
		}
		if e.id != "" && o.Here != nil && i < maxHere {
			served, messages := o.Here(e.id)
			e.knows(served, messages)
		}
		if explained > 0 && e.kernel == nil && e.cause == "" && !e.running {
			explained--
			nameFrom(all, e, o, t)
			continue
		}
		all = addAlike(all, t.ofEnd(e, o))
	}
	switch {
	case len(all) > 0:
	case t.schema1 != "":
		all = append(all, t.ofSchema1())
	case t.cause != "":
		all = append(all, &Crash{Kind: Other, Confidence: Likely, Count: 1, Verdict: "not the vsyscall page: " + t.cause, Evidence: []string{t.causeLine}})
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

// ofFault concludes from a message with the place of a crash.
func (t *textFacts) ofFault(f fault, o Options) *Crash {
	c := &Crash{Confidence: Likely, Program: f.Program, Path: f.Path, Count: 1, Image: cmp.Or(f.image, t.image), Evidence: []string{strings.TrimSpace(f.line)}}
	if f.PID > 0 {
		c.PIDs = []int{f.PID}
	}
	if f.traced {
		c.Path = cmp.Or(f.path, t.path)
	}
	var cause string
	c.Kind, cause = faultKind(&f.Fault)
	switch c.Kind {
	case Call, Filtered:
		c.called(c.Kind, functionAt(f.IP))
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
		return c
	}
	t.next(c, o)
	return c
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
func nameFrom(all []*Crash, e end, o Options, t *textFacts) {
	c := all[0]
	if len(all) > 1 || c.Container != "" || e.container == "" && e.image == "" && e.pod == "" || !c.Kind.Page() && !c.Kind.Open() {
		return
	}
	c.Container, c.Pod = e.container, e.pod
	if c.Image == "" {
		c.Image = e.image
		t.next(c, o)
	}
}

// ofEnd concludes from an exit status or a signal.
func (t *textFacts) ofEnd(e end, o Options) *Crash {
	c := &Crash{
		Kind: Unknown, Confidence: Uncertain, Count: 1, Status: e.status,
		Container: e.container, Pod: e.pod, Image: cmp.Or(e.image, t.image), Path: cmp.Or(e.path, t.path),
	}
	if e.line != "" {
		c.Evidence = []string{e.line}
	}
	if c.clear(&e) {
		return c
	}
	if len(e.mounts) > 0 {
		c.Kind, c.Confidence = Mounts, Likely
		c.Verdict = fmt.Sprintf("%s of the host are mounted over those of the image: the program runs with the host's loader and libraries, "+
			"not with its own", strings.Join(e.mounts, " and "))
		c.note("start it without these mounts first; if it then still ends with status 139, the page may be the cause")
		c.Next = o.command(t, c)
		return c
	}
	if f, own := e.message(); f != nil {
		f.image, f.path = c.Image, ""
		k := t.ofFault(*f, o)
		k.Container, k.Pod, k.Status, k.Evidence = c.Container, c.Pod, c.Status, append(c.Evidence, k.Evidence...)
		if !own && k.Kind.Page() {
			k.Confidence = Likely // a program that the container's program started, or that of another container
		}
		return k
	}
	if e.served {
		c.note("the kernel of this machine serves the vsyscall page: a call of it is slow, but no crash")
		c.Next = o.core(c)
		return c
	}
	t.next(c, o)
	return c
}

// clear concludes from an end by which the page is not the cause; otherwise it sets the verdict of an unknown one, and
// returns false.
func (c *Crash) clear(e *end) bool {
	subject := "the program"
	switch {
	case e.container != "":
		subject = "the container " + e.container
	case e.pod != "":
		subject = "the pod " + e.pod
	}
	switch {
	case e.running:
		c.Kind, c.Confidence, c.Verdict = None, Certain, subject+" is running"
	case e.cause != "":
		c.Kind, c.Confidence, c.Verdict = Other, Likely, "not the vsyscall page: "+e.cause
	case e.status == segvStatus:
		c.Verdict = fmt.Sprintf("%s ended by SIGSEGV (exit status %d); nothing here shows where", subject, e.status)
		return false
	case e.status != 0:
		c.Kind, c.Confidence, c.Verdict = Other, Likely, fmt.Sprintf("not the vsyscall page: %s ended with exit status %d", subject, e.status)
	case e.container != "":
		c.Kind, c.Confidence, c.Verdict = None, Certain, subject+" ended with exit status 0"
	default:
		c.Verdict = subject + " ended by SIGSEGV; nothing here shows where"
		return false
	}
	return true
}

// core is the command that makes the crash leave a core.
func (o *Options) core(c *Crash) *Command {
	return &Command{"docker run --ulimit core=-1 " + c.Image, "leaves a core where /proc/sys/kernel/core_pattern says: 'vfix diagnose --root " + c.Image + " CORE' explains it"}
}

// message returns the kernel's message about the end of a container, of those of that time; nil if none is about it. own
// reports that it is about the container's own program.
func (e *end) message() (f *fault, own bool) {
	for i := range e.kernel {
		f := &e.kernel[i]
		kind, _ := faultKind(&f.Fault)
		own := f.Program != "" && strings.HasPrefix(path.Base(e.path), f.Program)
		if f.Signal == e.status-128 && !(e.served && kind == Call) && (kind.Page() || own) {
			return f, own
		}
	}
	return nil, false
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

// knows takes what this machine knows of the end: whether its kernel serves the page, and its kernel's messages of that time.
func (e *end) knows(served bool, messages []string) {
	e.served = served
	for _, m := range messages {
		if f, ok := kernellog.Find(m); ok {
			e.kernel = append(e.kernel, fault{Fault: f, line: m})
		}
	}
}
