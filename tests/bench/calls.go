package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"vfix.dev/vfix/shim"
)

// candidate is one way to reach the three functions in a program of src.
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

// writeStubs writes the library with old glibc's calls in it, which vfix bench also measures.
func writeStubs(path string) error {
	const executable = 0o755
	return os.WriteFile(path, shim.Stubs(), executable)
}

// calls is 'vfix bench': the trap, the plain system call, each patch form and modern libc.
func (b *bench) calls() error {
	cmd := exec.Command(b.vfix, "bench", "--rounds", strconv.Itoa(b.rounds))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	fmt.Println()
	return nil
}

// samples are nanoseconds a call, by function and candidate: one a round.
type samples map[string]map[string][]float64

// measure runs all rounds: every round runs every candidate once.
func (b *bench) measure(program string, candidates []candidate) (samples, error) {
	all := samples{}
	for range b.rounds {
		for _, c := range candidates {
			cmd := exec.Command(program, append([]string{c.name}, c.args...)...)
			cmd.Env = append(os.Environ(), c.env...)
			out, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			for line := range bytes.Lines(out) {
				var function, name string
				var ns float64
				if _, err := fmt.Sscan(string(line), &function, &name, &ns); err != nil {
					return nil, fmt.Errorf("%s: %q: %w", c.name, line, err)
				}
				if all[function] == nil {
					all[function] = map[string][]float64{}
				}
				all[function][name] = append(all[function][name], ns)
			}
		}
	}
	return all, nil
}

// ratio is the median over the rounds of a's time in b's: how often b fits into a.
func ratio(a, b []float64) float64 {
	var r []float64
	for i := range min(len(a), len(b)) {
		r = append(r, a[i]/b[i])
	}
	return median(r)
}
