// The command that fixes a crash.

package diagnose

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/rewriter/patch"
)

// fix fills in c.Fixes; it needs all else to be filled in. args is the command line of the
// process, nil if not known.
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
		c.add("runs it here, no file changed", append([]string{"vfix", "run"}, args...)...)
	}
	if k := c.Caller; k != nil && k.File != "" && k.Site != nil && k.Site.Form != patch.Left {
		c.add("patches the caller in place, for all programs that use it", "vfix", "patch", "-i", path.Clean("/"+k.File))
	}
	if len(c.Fixes) == 0 {
		c.unnamed(o)
	}
}

// maxCallers is how many files are named that may have called.
const maxCallers = 8

// calledIn reports whether a file of the root is known to call the function, and notes which: the caller that was read, or
// any, as a line of a log names none. Without a function the caller is whom reachOf examined.
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
	c.note("nothing names the caller; these files of %s call %s(): %s%s", o.RootName, c.Function, strings.Join(files, ", "), more)
	return true
}

// unnamed is about a crash that vfix fixes, in an image that nothing names: what finds the image is proposed, if this
// machine has it.
func (c *Crash) unnamed(o Options) {
	c.note("the image that it ran in is not known: 'vfix rebuild' takes its name, and 'vfix run' the command line of a program of the machine itself")
	for _, engine := range []string{"docker", "podman"} {
		if c.Signal != 0 && o.hasCommand(engine) {
			c.Next = &Fix{fmt.Sprintf("%s ps -a --filter exited=%d", engine, died+c.Signal), "lists the containers that ended so; 'vfix diagnose' takes the name of one"}
			return
		}
	}
}

// how says what becomes of the call.
func (c *Crash) how() string {
	k := c.Caller
	switch {
	case k == nil || k.Site == nil:
		return "the call reaches the vDSO, or the fallback catches it"
	case k.Site.Form == patch.Left:
		return "the fallback catches the call: it cannot be patched (" + k.Site.Reason + ")"
	}
	return "the call reaches the vDSO"
}

func (c *Crash) add(why string, words ...string) {
	c.Fixes = append(c.Fixes, Fix{Command: quote.Words(words), Why: why})
}
