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
)

// candidate is one way to reach the three functions.
type candidate struct {
	name string
	args []string // after the name
	env  []string
}

// calls measures time, gettimeofday and getcpu: the trap, the plain system call, each patch
// form, and modern glibc. Every round runs every candidate once.
func (b *bench) calls() error {
	program, stubs := filepath.Join(b.dir, "calls"), filepath.Join(b.dir, "stubs.so")
	for _, args := range [][]string{
		{"-O2", "-Wall", "-Wextra", "-Werror", "-o", program, "tests/bench/src/calls.c"},
		{"-shared", "-nostdlib", "-Wl,--build-id", "-o", stubs, "tests/bench/src/stubs.S"},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("gcc: %w: %s", err, out)
		}
	}
	// glibc from 2.35 reads sched_getcpu from its rseq area and calls nothing; without rseq
	// it calls the vDSO, which is what the patched sites are to be held against.
	candidates := []candidate{
		{name: "glibc", env: []string{"GLIBC_TUNABLES=glibc.pthread.rseq=0"}},
		{name: "glibc-rseq"},
	}
	for _, f := range []rewriter.Form{rewriter.Entry, rewriter.Call, rewriter.Lea, rewriter.Syscall} {
		path := filepath.Join(b.dir, f.String()+".so")
		if err := patchForm(stubs, path, f); err != nil {
			return fmt.Errorf("%v form: %w", f, err)
		}
		candidates = append(candidates, candidate{name: f.String(), env: []string{"LD_PRELOAD=" + path}})
	}
	candidates = append(candidates,
		candidate{name: "plain-syscall", args: []string{"syscall"}},
		candidate{name: "trap", env: []string{"LD_PRELOAD=" + stubs}})
	ns, missing, err := b.measure(program, candidates)
	if err != nil {
		return err
	}
	printCalls(ns, missing)
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
		forms = append(forms, rewriter.Call) // gettimeofday and sched_getcpu are no mere stubs
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

// measure returns the medians of nanoseconds by function and candidate, and the candidates
// that this kernel cannot run.
func (b *bench) measure(program string, candidates []candidate) (map[string]map[string]float64, []string, error) {
	samples := map[string]map[string][]float64{}
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
				if samples[function] == nil {
					samples[function] = map[string][]float64{}
				}
				samples[function][name] = append(samples[function][name], ns)
			}
		}
	}
	medians := map[string]map[string]float64{}
	for function, by := range samples {
		medians[function] = map[string]float64{}
		for name, v := range by {
			medians[function][name] = median(v)
		}
	}
	return medians, missing, nil
}

func printCalls(ns map[string]map[string]float64, missing []string) {
	fmt.Println("Calls, through a library's PLT; glibc is this machine's, over the vDSO; 1.00 is as fast.")
	fmt.Printf("%-13s %-14s %9s %14s %10s %10s\n", "function", "way", "ns/call", "calls/s", "of glibc", "of trap")
	for _, function := range []string{"time", "gettimeofday", "getcpu"} {
		by := ns[function]
		for _, name := range []string{"glibc", "glibc-rseq", "entry", "call", "lea", "syscall", "plain-syscall", "trap"} {
			v, ok := by[name]
			if !ok || name == "glibc-rseq" && function != "getcpu" || name == "entry" && function != "time" {
				continue
			}
			trap := "-"
			if t, ok := by["trap"]; ok {
				trap = fmt.Sprintf("%.1fx", t/v)
			}
			fmt.Printf("%-13s %-14s %9.2f %14.0f %10.2f %10s\n", function, name, v, 1e9/v, by["glibc"]/v, trap)
		}
	}
	if len(missing) > 0 {
		fmt.Println("not measured: the trap: this kernel does not serve the vsyscall page (vsyscall=none)")
	}
	fmt.Println()
}
