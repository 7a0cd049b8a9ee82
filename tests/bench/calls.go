package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"vfix.dev/vfix/rewriter"
	"vfix.dev/vfix/shim"
)

// candidate is one way to reach the three functions.
type candidate struct {
	name string
	args []string // after the name
	env  []string
}

func gcc(args ...string) error {
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w: %s", err, out)
	}
	return nil
}

// writeStubs writes the library with old glibc's calls in it, which vfix bench measures too.
func writeStubs(path string) error {
	const executable = 0o755
	return os.WriteFile(path, shim.Stubs(), executable)
}

// calls measures time, gettimeofday and getcpu: the trap, the plain system call, each patch
// form, and modern glibc. Every round runs every candidate once.
func (b *bench) calls() error {
	program, stubs := filepath.Join(b.dir, "calls"), filepath.Join(b.dir, "stubs.so")
	if err := gcc("-O2", "-Wall", "-Wextra", "-Werror", "-o", program, "tests/bench/src/calls.c"); err != nil {
		return err
	}
	if err := writeStubs(stubs); err != nil {
		return err
	}
	// glibc from 2.35 reads sched_getcpu from its rseq area and calls nothing; without rseq
	// it calls the vDSO, which is what the patched sites are to be held against.
	// The syscall form is no candidate: it would change rcx and r11, which nobody proves unused.
	candidates := []candidate{
		{name: "glibc", env: []string{"GLIBC_TUNABLES=glibc.pthread.rseq=0"}},
		{name: "glibc-rseq"},
	}
	for _, f := range []rewriter.Form{rewriter.Entry, rewriter.Lea} {
		path := filepath.Join(b.dir, f.String()+".so")
		if err := patchForm(stubs, path, f); err != nil {
			return fmt.Errorf("%v form: %w", f, err)
		}
		candidates = append(candidates, candidate{name: f.String(), env: []string{"LD_PRELOAD=" + path}})
	}
	candidates = append(candidates,
		candidate{name: "plain-syscall", args: []string{"syscall"}},
		candidate{name: "trap", env: []string{"LD_PRELOAD=" + stubs}})
	samples, missing, err := b.measure(program, candidates)
	if err != nil {
		return err
	}
	printCalls(samples, missing)
	return nil
}

// patchForm writes a copy of a library whose sites are patched in the form, or in the next
// best one where that form does not fit the site.
func patchForm(in, out string, form rewriter.Form) error {
	data, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	r, err := rewriter.Scan(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	forms := []rewriter.Form{form}
	if form == rewriter.Entry {
		forms = append(forms, rewriter.Lea) // gettimeofday and sched_getcpu are no mere stubs
	}
	p, err := rewriter.NewPlan(r, rewriter.Options{Forms: forms})
	if err != nil {
		return err
	}
	for _, q := range p.Patches {
		if q.Form == rewriter.Left {
			return fmt.Errorf("%v at vaddr %#x: %s", q.Site.Function, q.Site.Vaddr, q.Reason)
		}
	}
	patched, err := io.ReadAll(p.Apply(bytes.NewReader(data)))
	if err != nil {
		return err
	}
	return os.WriteFile(out, patched, 0o755)
}

// samples are nanoseconds a call, by function and candidate: one a round.
type samples map[string]map[string][]float64

// measure runs all rounds. missing are the candidates that this kernel cannot run.
func (b *bench) measure(program string, candidates []candidate) (samples, []string, error) {
	all := samples{}
	var missing []string
	for range b.rounds {
		for _, c := range candidates {
			if slices.Contains(missing, c.name) {
				continue
			}
			cmd := exec.Command(program, append([]string{c.name}, c.args...)...)
			cmd.Env = append(os.Environ(), c.env...)
			out, err := cmd.Output()
			if err != nil && c.name == "trap" {
				missing = append(missing, c.name) // vsyscall=none: there is nothing to trap
				continue
			} else if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", c.name, err)
			}
			for line := range bytes.Lines(out) {
				var function, name string
				var ns float64
				if _, err := fmt.Sscan(string(line), &function, &name, &ns); err != nil {
					return nil, nil, fmt.Errorf("%s: %q: %w", c.name, line, err)
				}
				if all[function] == nil {
					all[function] = map[string][]float64{}
				}
				all[function][name] = append(all[function][name], ns)
			}
		}
	}
	return all, missing, nil
}

// ratio is the median over the rounds of a's time in b's: how often b fits into a.
func ratio(a, b []float64) float64 {
	var r []float64
	for i := range min(len(a), len(b)) {
		r = append(r, a[i]/b[i])
	}
	return median(r)
}

func printCalls(all samples, missing []string) {
	fmt.Println("Calls, through a library's PLT. Medians; the ratios are medians of those of each round.")
	fmt.Println("glibc is this machine's, over the vDSO (without rseq, from which it reads the processor).")
	fmt.Printf("%-13s %-14s %9s %14s %10s %10s\n", "function", "way", "ns/call", "calls/s", "of glibc", "of trap")
	for _, function := range []string{"time", "gettimeofday", "getcpu"} {
		by := all[function]
		for _, name := range []string{"glibc", "glibc-rseq", "entry", "lea", "plain-syscall", "trap"} {
			v, ok := by[name]
			if !ok || name == "glibc-rseq" && function != "getcpu" || name == "entry" && function != "time" {
				continue
			}
			trap := "-"
			if t, ok := by["trap"]; ok {
				trap = fmt.Sprintf("%.1fx", ratio(t, v))
			}
			fmt.Printf("%-13s %-14s %9.2f %14.0f %10.2f %10s\n", function, name, median(v), 1e9/median(v), ratio(by["glibc"], v), trap)
		}
	}
	if len(missing) > 0 {
		fmt.Println("not measured: the trap: this kernel does not serve the vsyscall page (vsyscall=none)")
	}
	fmt.Println()
}
