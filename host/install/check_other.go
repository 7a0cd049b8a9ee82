//go:build !linux

package install

import "context"

func (c *Checked) run(context.Context) { c.problem("a container starts on Linux alone") }
