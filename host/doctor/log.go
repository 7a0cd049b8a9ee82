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

// judgeLog judges the kernel's records; booted is when the machine was booted. Each process counts once: a kernel's record
// of a call is followed by the one of the segfault, and a handler may fault again. A crash in the past is not a fault of
// the machine's present state, which the check vsyscall reports.
func judgeLog(c *Check, records []kernellog.Record, booted time.Time) {
	when := func(at time.Duration) string { return booted.Add(at).Format(time.DateTime) }
	seen, last := map[string]bool{}, ""
	for _, r := range records {
		f, ok := kernellog.Find(r.Text)
		process, use := fmt.Sprintf("%s[%d]", f.Program, f.PID), useOfPage(&f)
		if !ok || f.OfVfix() || use == "" || seen[process] {
			continue
		}
		seen[process], last = true, f.Program+" at "+when(r.At)
		c.detail("%s  %s  %s", when(r.At), process, use)
	}
	slices.Reverse(c.Details) // few of them are printed
	c.figure("crashes", float64(len(seen)), "processes")
	switch {
	case len(records) == 0:
		c.found(Skipped, "the kernel log is empty")
	case len(seen) == 0:
		c.found(OK, "no vsyscall crash since %s", when(records[0].At))
	default:
		c.found(Warn, "crashes: %d, last %s", len(seen), last)
		c.Do = "dmesg | vfix diagnose -"
	}
}

// useOfPage says how a process that crashed used the page, "" if it did not.
func useOfPage(f *kernellog.Fault) string {
	calls := []kernellog.Message{kernellog.Attempted, kernellog.Segfault, kernellog.Protection, kernellog.Seccomp}
	switch function, called := find.FunctionAt(f.IP); {
	case called && slices.Contains(calls, f.Message):
		return function.String() + "()"
	case f.Message == kernellog.ReadDenied:
		return "read of the page"
	}
	return ""
}
