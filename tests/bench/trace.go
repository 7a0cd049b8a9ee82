package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// twinTrace is vfix-trace for a page that no kernel maps, so that calls of it fault here as
// calls of the real page do with vsyscall=none (tests/fixtures/fallback/trace.mk).
const twinTrace = "tests/build/vfix-trace-twin"

// starts is how many processes one sample of the cost of starting them makes.
const starts = 50

// trace measures calls of the page under vfix-trace, healed and not, against the vDSO in the
// same program, and what a process more costs.
func (b *bench) trace() error {
	program := filepath.Join(b.dir, "traced")
	args := []string{"-O2", "-static", "-Wall", "-Wextra", "-Werror", "-o", program, "tests/bench/src/traced.c"}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w: %s", err, out)
	}
	ns := map[string]map[string][]float64{}
	var plain, traced []float64
	for range b.rounds {
		for name, env := range map[string]string{"healed": "VFIX_HEAL=1", "un-healed": "VFIX_HEAL=0"} {
			if err := traceSample(program, name, env, ns); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		for samples, wrapper := range map[*[]float64]string{&plain: "", &traced: twinTrace} {
			d, err := startCost(wrapper)
			if err != nil {
				return err
			}
			*samples = append(*samples, d)
		}
	}
	printTrace(ns, median(plain), median(traced))
	return nil
}

// traceSample runs the program once under vfix-trace and adds what it prints to ns.
func traceSample(program, name, env string, ns map[string]map[string][]float64) error {
	cmd := exec.Command(twinTrace, program, name)
	cmd.Env = append(os.Environ(), env)
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for line := range bytes.Lines(out) {
		var function, way string
		var v float64
		if _, err := fmt.Sscan(string(line), &function, &way, &v); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		if ns[function] == nil {
			ns[function] = map[string][]float64{}
		}
		ns[function][way] = append(ns[function][way], v)
	}
	return nil
}

// startCost returns the nanoseconds that a shell needs for one process, which calls nothing,
// under the wrapper or without one.
func startCost(wrapper string) (float64, error) {
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do /bin/true; i=$((i+1)); done", starts)
	args := []string{"sh", "-c", script}
	if wrapper != "" {
		args = append([]string{wrapper}, args...)
	}
	begin := time.Now()
	if err := exec.Command(args[0], args[1:]...).Run(); err != nil {
		return 0, fmt.Errorf("%q: %w", args, err)
	}
	return float64(time.Since(begin).Nanoseconds()) / starts, nil
}

func printTrace(ns map[string]map[string][]float64, plain, traced float64) {
	fmt.Println("Calls under vfix-trace, of the page's twin; vdso is the C library in the same program; 1.00 is as fast.")
	fmt.Printf("%-13s %-14s %12s %10s\n", "function", "way", "ns/call", "of vdso")
	for _, row := range []struct{ function, way string }{
		{"time", "vdso"}, {"time", "healed"}, {"time", "un-healed"}, {"time", "healed-first"},
		{"gettimeofday", "vdso"}, {"gettimeofday", "healed"}, {"gettimeofday", "un-healed"}, {"gettimeofday", "healed-next"},
	} {
		v, vdso := median(ns[row.function][row.way]), median(ns[row.function]["vdso"])
		fmt.Printf("%-13s %-14s %12.2f %10.5f\n", row.function, row.way, v, vdso/v)
	}
	fmt.Printf("A process that a shell starts: %.0f us, under vfix-trace %.0f us.\n\n", plain/1e3, traced/1e3)
}
