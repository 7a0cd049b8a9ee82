// Which configuration vfix-runtime and its hook start containers with.

package doctor

import (
	"vfix.dev/vfix/host/starts"
)

func checkPolicy(x *examination, c *Check) {
	if x.Policy == nil {
		c.found(Skipped, "not looked for")
		return
	}
	p := x.Policy()
	c.fact("source", string(p.Source))
	c.fact("file", p.Path)
	what := "containers that cannot be patched start as they are"
	if p.FailClosed {
		what = "containers that cannot be patched do not start"
	}
	c.Means = "with vfix-runtime, " + what
	switch p.Source {
	case starts.FromFile:
		c.found(OK, "%s is in force", p.Path)
	case starts.Defaults:
		c.found(OK, "no %s: the defaults are in force", p.Path)
	default:
		c.found(Warn, "%s", p.Why())
		if p.Source == starts.ClosedDefault {
			c.Verdict = Fail
		}
		c.Do = "correct " + p.Path + ", and read it with 'vfix runtime check'; {} in it stands for the defaults"
	}
}
