package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// twinPage is a page that no kernel maps, right below the vsyscall page: a call to it faults
// natively as one to the page does where the kernel does not serve that.
const twinPage = "0xffffffffff5ff000"

// lives is how many processes one sample of the start-up cost is made of.
const lives = 20

// fallback measures what a call costs that the preload library serves, on a library built for
// the twin of the page, against the vDSO; and what the library costs each process.
func (b *bench) fallback() error {
	program, shim := filepath.Join(b.dir, "fallback"), filepath.Join(b.dir, "shim")
	for _, args := range [][]string{
		{"gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-DPAGE=" + twinPage, "-DPREFIX=site_", "-o", program,
			"tests/bench/src/fallback.c", "shim/src/linked/stubs.S"},
		{"make", "-s", "-C", "shim/src", "preload", "BUILD=" + shim, "PAGE=" + twinPage},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	preload := "LD_PRELOAD=" + filepath.Join(shim, "libvfix.so")
	candidates := []candidate{
		{name: "vdso"},
		{name: "name", env: []string{preload}},
		{name: "healed", args: []string{"site"}, env: []string{preload}},
		{name: "un-healed", args: []string{"site"}, env: []string{preload, "VFIX_HEAL=0"}},
		{name: "first", env: []string{preload}},
	}
	all, err := b.measure(program, candidates)
	if err != nil {
		return err
	}
	with, without, err := b.startUp(program, preload)
	if err != nil {
		return err
	}
	printFallback(all, with, without)
	return nil
}

// startUp returns the microseconds that a process lives that does nothing, with the preload
// library and without: the least of all rounds, for noise only adds.
func (b *bench) startUp(program, preload string) (with, without float64, err error) {
	samples := map[string][]float64{}
	for range 4 * b.rounds {
		for _, env := range []string{preload, "VFIX_NONE=1"} {
			start := time.Now()
			for range lives {
				cmd := exec.Command(program, "start")
				cmd.Env = append(os.Environ(), env)
				if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
					return 0, 0, fmt.Errorf("%s start: %w: %s", program, err, out)
				}
			}
			samples[env] = append(samples[env], float64(time.Since(start).Microseconds())/lives)
		}
	}
	return slices.Min(samples[preload]), slices.Min(samples["VFIX_NONE=1"]), nil
}

func printFallback(all samples, with, without float64) {
	fmt.Println("The preload library, on the twin of the page; vdso is the vDSO's function through a pointer; 1.00 is as fast.")
	fmt.Printf("%-13s %-14s %9s %14s %10s\n", "function", "way", "ns/call", "calls/s", "of vdso")
	for _, function := range []string{"time", "gettimeofday", "getcpu"} {
		by := all[function]
		for _, name := range []string{"vdso", "name", "healed", "un-healed", "first"} {
			fmt.Printf("%-13s %-14s %9.2f %14.0f %10.4f\n", function, name, median(by[name]), 1e9/median(by[name]), ratio(by["vdso"], by[name]))
		}
	}
	fmt.Printf("start-up of a process: %.0f µs with the library, %.0f without: %.0f µs\n\n", with, without, with-without)
}
