// The answer in one sentence, its confidence, the commands that fix the cause, and the next command to type.

package diagnose

import (
	"errors"
	"fmt"
	"os/exec"
	"path"
	"strings"

	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/rewriter/patch"
)

// Confidence is the degree to which the kind of a crash is certain.
type Confidence string

// The confidences.
const (
	// Certain: the kernel or the core reports it for this very crash.
	Certain Confidence = "certain"
	// Likely: all evidence points to it, but none is about this very crash.
	Likely Confidence = "likely"
	// NotKnown: the cause is not known.
	NotKnown Confidence = "unknown"
)

// Scanned is the result of the scan of an image.
type Scanned struct {
	Affected, Complete bool
	Sites              int      // live or unknown call sites that no fallback covers
	Files              []string // the files with these sites
}

// who returns the subject of a sentence: the program that crashed.
func (c *Crash) who() string {
	switch {
	case c.Program != "":
		return c.Program
	case c.Executable != "":
		return c.Executable
	case c.Source == ContainerEnd:
		return "the container"
	}
	return "the program"
}

// conclude fills in Confidence, Verdict and Next, once all else is filled in.
func (c *Crash) conclude(o Options) {
	if c.Verdict == "" {
		c.fullStack()
	}
	if c.Confidence == "" {
		c.Confidence = Certain
		if c.Kind == Unknown {
			c.Confidence = NotKnown
		}
	}
	if c.Source == ImageScan {
		c.Verdict = c.Meaning
		c.Next = nil
		if len(c.Fixes) > 0 {
			c.Next = &c.Fixes[0]
		}
		return
	}
	c.Verdict = c.words(kinds[c.Kind].verdict)
	switch {
	case c.Kind == Unknown && c.because != "":
		c.Verdict += ": " + c.because
	case c.Verdict == "":
		c.Verdict = "the vsyscall page is not the cause"
		if c.Signal != 0 {
			c.Verdict += " of this " + SignalName(c.Signal)
		}
	}
	if len(c.Fixes) > 0 {
		c.Next = &c.Fixes[0]
	} else if c.Kind == Unknown && c.Next == nil {
		c.Next = c.evidenceCommand(o)
	}
}

// hasCommand reports whether this machine has a program.
func (o Options) hasCommand(name string) bool {
	if o.HasCommand != nil {
		return o.HasCommand(name)
	}
	_, err := exec.LookPath(name)
	return err == nil
}

// evidenceCommand returns the command that collects evidence of the cause.
func (c *Crash) evidenceCommand(o Options) *Fix {
	if c.storage != "" {
		return &Fix{"vfix diagnose " + quote.Path(c.storage), "reads the core file that systemd-coredump kept"}
	}
	if len(c.PIDs) > 0 && o.hasCommand("coredumpctl") && c.Source == Backtrace {
		return &Fix{fmt.Sprintf("coredumpctl info %d | vfix diagnose -", c.PIDs[0]), "reads the report of the crash"}
	}
	log := "dmesg"
	if o.hasCommand("journalctl") {
		log = "journalctl -k"
	}
	return &Fix{log + " | vfix diagnose -", "reads the kernel's log of this machine; run it on the machine that the program ran on"}
}

// noName matches the ID of an image, and the names that podman gives to its own images.
var noName = lazy.Regexp(`^(?:|localhost/.*|(?:sha256:)?[0-9a-f]{12,64}|.*[<>\s].*)$`)

// next returns the command that finds the cause of a container's end.
func (e Exited) next(o Options, state hostState) *Fix {
	switch {
	case !e.Elsewhere && state.err != nil && e.Name != "":
		f := &Fix{"vfix diagnose " + quote.Words([]string{"container:" + e.Name}), "run it as root: it reads the kernel's log, for which this user has no permission"}
		if o.hasCommand("sudo") {
			f.Command = "sudo " + f.Command
		}
		return f
	case !noName().MatchString(e.Image) && e.Scan == nil:
		return &Fix{"vfix scan " + quote.Words([]string{"docker://" + strings.TrimPrefix(e.Image, "docker://")}), "downloads the image from its registry, as no engine here has it, and shows whether it calls the page"}
	case !e.Elsewhere && e.Image != "":
		for _, engine := range []string{"docker", "podman"} {
			if o.hasCommand(engine) {
				return &Fix{engine + " run --ulimit core=-1 " + quote.Words([]string{e.Image}), "starts it again, and lets it write a core file for vfix diagnose"}
			}
		}
	}
	return nil
}

// Image returns the result for an image without a known crash.
func Image(name string, found *Scanned, o Options) *Result {
	c := &Crash{Input: name, Source: ImageScan, Count: 1, Kind: None}
	switch {
	case found.Affected:
		c.Kind = Affected
		c.Meaning = fmt.Sprintf("%s calls the vsyscall page (%d call sites in %d files): ", name, found.Sites, len(found.Files)) + map[pageState]string{
			pageUnknown: "its programs crash with exit status 139 on kernels with vsyscall=none",
			pageMapped:  "its programs run here, slowly, and crash with exit status 139 on kernels with vsyscall=none",
			pageAbsent:  "this kernel does not serve the page, so its programs crash here with exit status 139",
		}[pageHere()]
		c.add("writes the derived image, whose calls reach the vDSO", append([]string{"vfix", "rebuild", name}, o.Output...)...)
	case found.Complete:
		c.Meaning = "no file of " + name + " calls the vsyscall page: a crash of its programs has another cause"
	default:
		c.Kind = Unknown
		c.Meaning = "no file of " + name + " that was examined calls the vsyscall page, but some were not examined"
		c.add("lists what was not examined, and why", "vfix", "scan", name)
	}
	c.conclude(o)
	return &Result{Input: name, Crashes: []*Crash{c}, Understood: true}
}

// fix sets c.Fixes, after all other fields. args is the command line of the process, nil if not known.
func (c *Crash) fix(o Options, args []string) {
	if !c.Kind.Fixable() {
		return
	}
	switch how := c.how(); {
	case o.RootName != "" && !c.calledIn(o):
		return
	case o.IsImage:
		c.add("writes the derived image, and "+how, append([]string{"vfix", "rebuild", o.RootName}, o.Output...)...)
		return
	case o.RootName != "":
		c.add("patches every file of that root in place, and "+how, "vfix", "patch", "-i", o.RootName)
		return
	case o.elsewhere || c.Source == CoreFile && (c.Caller == nil || c.Caller.File == ""):
		c.unnamed(o)
		return
	}
	here := c.Caller != nil && c.Caller.File != ""
	if len(args) > 0 && here {
		c.add("runs it here without changing a file", append([]string{"vfix", "run"}, args...)...)
	}
	if k := c.Caller; k != nil && k.File != "" && k.Site != nil && k.Site.Form != patch.Left {
		c.add("patches the caller in place, for all programs that use it", "vfix", "patch", "-i", path.Clean("/"+k.File))
	}
	if len(c.Fixes) == 0 {
		c.unnamed(o)
	}
}

// maxCallers is the number of possible callers that are named.
const maxCallers = 8

// calledIn reports whether a file of the root calls the function, and notes which files: the caller that was read,
// or, as lines of a log do not name it, all that may be. Without a function it is the program that reachOf
// examined.
func (c *Crash) calledIn(o Options) bool {
	if c.Function == "" || c.Caller != nil && c.Caller.File != "" {
		return true
	}
	err := errors.New("not examined")
	var files []string
	if o.Callers != nil {
		files, err = o.Callers(c.Function)
	}
	switch {
	case err != nil:
		c.note("the files of %s: %v", o.RootName, err)
		c.Next = &Fix{quote.Words([]string{"vfix", "scan", o.RootName}), "shows which of its files call the page, and what was not examined"}
		return false
	case len(files) == 0:
		c.note("no file of %s calls %s(): the program is not in that root, or loads its code later", o.RootName, c.Function)
		c.unnamed(o)
		return false
	}
	more := ""
	if n := len(files) - maxCallers; n > 0 {
		files, more = files[:maxCallers], fmt.Sprintf(" and %d more", n)
	}
	c.note("the caller is unknown; these files of %s call %s(): %s%s", o.RootName, c.Function, strings.Join(files, ", "), more)
	return true
}

// unnamed is for a crash that vfix fixes, in an image whose name is not known: it proposes a command that finds
// the image, if this machine has it.
func (c *Crash) unnamed(o Options) {
	c.note("the image that it ran in is not known: 'vfix rebuild' takes its name, and 'vfix run' the command line of a program of the machine itself")
	for _, engine := range []string{"docker", "podman"} {
		if c.Signal != 0 && o.hasCommand(engine) {
			c.Next = &Fix{fmt.Sprintf("%s ps -a --filter exited=%d", engine, died+c.Signal), "lists the containers that ended with this status; pass the name of one to 'vfix diagnose'"}
			return
		}
	}
}

func (c *Crash) how() string {
	k := c.Caller
	switch {
	case k == nil || k.Site == nil:
		return "the call reaches the vDSO, or the fallback catches it"
	case k.Site.Form == patch.Left:
		return "the fallback catches the call: it cannot be patched (" + k.Site.Reason.String() + ")"
	}
	return "the call reaches the vDSO"
}

func (c *Crash) add(why string, words ...string) {
	c.Fixes = append(c.Fixes, Fix{Command: quote.Words(words), Why: why})
}
