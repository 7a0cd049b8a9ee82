// The processes that crashed on the vsyscall page, in the kernel's log.

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/rewriter/find"
)

// crashed is a process that called or read the page.
type crashed struct {
	program string
	pid     int
	what    string
	at      time.Duration // since the machine was booted
}

// crashes returns the processes that crashed on the page, each once. A kernel's record of a call is followed by the one
// of the segfault, and a handler may fault again.
func crashes(records []kernellog.Record) (all []crashed) {
	seen := map[string]bool{}
	for _, r := range records {
		f, ok := kernellog.Find(r.Text)
		if !ok || f.OfVfix() {
			continue
		}
		what := ""
		switch function, called := find.FunctionAt(f.IP); {
		case called && slices.Contains([]kernellog.Message{kernellog.Attempted, kernellog.Segfault, kernellog.Protection, kernellog.Seccomp}, f.Message):
			what = function.String() + "()"
		case f.Message == kernellog.ReadDenied:
			what = "read of the page"
		default:
			continue
		}
		process := fmt.Sprintf("%s[%d]", f.Program, f.PID)
		if !seen[process] {
			seen[process] = true
			all = append(all, crashed{f.Program, f.PID, what, r.At})
		}
	}
	return all
}

func checkLog(_ *machine, c *Check, _ *Report) error {
	records, booted, err := kernellog.Read()
	if errors.Is(err, fs.ErrPermission) {
		c.Do = "sudo vfix doctor --check kernel-log"
		return errors.New("only root may read the kernel log here (kernel.dmesg_restrict)")
	}
	if err != nil {
		return err
	}
	judgeLog(c, records, booted)
	return nil
}

// judgeLog judges the kernel's records; booted is when the machine was booted. A crash in the past is not a
// fault of the machine's present state, which the check vsyscall reports.
func judgeLog(c *Check, records []kernellog.Record, booted time.Time) {
	when := func(at time.Duration) string { return booted.Add(at).Format(time.DateTime) }
	all := crashes(records)
	c.figure("crashes", float64(len(all)), "processes")
	for _, p := range slices.Backward(all) { // few of them are printed
		c.detail("%s  %s[%d]  %s", when(p.at), p.program, p.pid, p.what)
	}
	switch {
	case len(records) == 0:
		c.found(Skipped, "the kernel log is empty")
	case len(all) == 0:
		c.found(OK, "no vsyscall crash since %s", when(records[0].At))
	default:
		last := all[len(all)-1]
		c.found(Warn, "crashes: %d, last %s at %s", len(all), last.program, when(last.at))
		c.Do = "dmesg | vfix diagnose -"
	}
}
