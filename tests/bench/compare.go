// Commands in turn, and the table of what they took.

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// command is one of several ways to do the same.
type command struct {
	name string
	args []string
	// statuses are exit statuses that are results, beside 0.
	statuses []int
	// before and after, which may be nil, prepare and clean up each run, and are not measured.
	before, after func() error
}

// took is one run: seconds from start to end, seconds of processors, and the peak of resident memory in
// KiB, of the command or of the largest process that it started (getrusage(2), ru_maxrss).
type took struct {
	seconds, processor float64
	memory             int64
}

// compare runs the commands in turn and prints a table. Ratios are to the last command, of medians.
func (b *bench) compare(title string, commands ...command) error {
	if err := forgetPeak(); err != nil {
		return err
	}
	runs := make([][]took, len(commands))
	for range b.rounds {
		for i, c := range commands {
			t, err := c.run()
			if err != nil {
				return err
			}
			runs[i] = append(runs[i], t)
		}
	}
	fmt.Printf("%s; medians of %d rounds in turn\n\n", title, b.rounds)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "program\ttime/ms\tratio\tprocessor/ms\tratio\tmemory/MiB\t\n")
	last := runs[len(runs)-1]
	for i, c := range commands {
		time, processor := median(runs[i], seconds), median(runs[i], processorSeconds)
		fmt.Fprintf(w, "%s\t%.1f\t%.2f\t%.1f\t%.2f\t%.0f\t\n", c.name,
			time*1e3, time/median(last, seconds),
			processor*1e3, processor/median(last, processorSeconds), median(runs[i], memory)/1024)
	}
	fmt.Fprintln(w)
	return w.Flush()
}

func (c command) run() (t took, err error) {
	if c.before != nil {
		if err := c.before(); err != nil {
			return t, err
		}
	}
	cmd := exec.Command(c.args[0], c.args[1:]...)
	// Files, because a container's first process keeps what it inherits.
	messages, err := os.CreateTemp("", "vfix-bench-messages")
	if err != nil {
		return t, err
	}
	defer os.Remove(messages.Name())
	defer messages.Close()
	cmd.Stderr = messages
	begun := time.Now()
	err = cmd.Run()
	t.seconds = time.Since(begun).Seconds()
	var exit *exec.ExitError
	if errors.As(err, &exit) && slices.Contains(c.statuses, exit.ExitCode()) {
		err = nil
	}
	if err != nil {
		said, _ := os.ReadFile(messages.Name())
		return t, fmt.Errorf("%s %s: %w: %s", filepath.Base(c.args[0]), strings.Join(c.args[1:], " "), err, bytes.TrimSpace(said))
	}
	t.processor = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	t.memory = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	if c.after != nil {
		err = c.after()
	}
	return t, err
}

func seconds(t took) float64          { return t.seconds }
func processorSeconds(t took) float64 { return t.processor }
func memory(t took) float64           { return float64(t.memory) }

// median returns the middle one of the values, and at least a small number, which can divide.
func median(runs []took, value func(took) float64) float64 {
	var all []float64
	for _, t := range runs {
		all = append(all, value(t))
	}
	slices.Sort(all)
	return max(all[len(all)/2], 1e-6)
}

// forgetPeak frees memory and resets this process's peak, which the kernel counts as memory of the processes
// that it starts (proc(5), clear_refs).
func forgetPeak() error {
	debug.FreeOSMemory()
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}
