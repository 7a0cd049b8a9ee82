package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// equivalents reads the list of mutants that change nothing: a line of each, ` — ` and the reason.
func equivalents(module string) (map[string]string, error) {
	name := filepath.Join(module, "tests/mutants/equivalent.txt")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	list := map[string]string{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, why, ok := strings.Cut(line, " — ")
		if !ok || why == "" {
			return nil, fmt.Errorf("%s:%d: want MUTANT — REASON", name, number)
		}
		list[key] = why
	}
	return list, nil
}

// report prints what survived and how many were noticed, and returns whether that is as it must be.
// The list of equivalent mutants is checked for stale lines where the whole package was tested.
func report(p *program, o options, mutants []*mutant, verdicts []verdict, whole bool) (bool, error) {
	equal, err := equivalents(p.module)
	if err != nil {
		return false, err
	}
	ok := true
	counts := map[kind]map[verdict]int{}
	total := map[verdict]int{}
	used := map[string]bool{}
	reached := map[string]int{}
	known := 0
	for i, m := range mutants {
		v := verdicts[i]
		if equal[m.Key()] != "" {
			used[m.Key()] = true
			if v != survived {
				fmt.Printf("stale line of equivalent.txt, as it is %s: %s\n", [...]string{"not reached", "", "noticed", "noticed"}[v], m.Key())
				ok = false
			}
			known++
			continue
		}
		if counts[m.Kind] == nil {
			counts[m.Kind] = map[verdict]int{}
		}
		counts[m.Kind][v]++
		total[v]++
		if v == unreached {
			reached[m.File+": "+m.Func]++
		}
	}
	short, _ := filepath.Rel(p.module, p.dir)
	for key := range equal {
		if whole && strings.HasPrefix(key, short+"/") && !strings.Contains(strings.Fields(key)[0][len(short)+1:], "/") && !used[key] {
			fmt.Println("stale line of equivalent.txt, as there is no such mutant:", key)
			ok = false
		}
	}
	var names []string
	for name := range reached {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Printf("no test reaches %d in %s\n", reached[name], name)
	}
	for _, k := range []kind{negated, boundary, dropped, constants, removed, swallowed} {
		c := counts[k]
		fmt.Printf("  %-18s %4d noticed, %4d survived, %4d not reached\n", k, c[noticed]+c[tooSlow], c[survived], c[unreached])
	}
	seen := total[noticed] + total[tooSlow]
	percent := 100
	if n := seen + total[survived]; n > 0 {
		percent = 100 * seen / n
	}
	fmt.Printf("%s: %d%% of reached mutants noticed: %d noticed (%d by time), %d survived, %d not reached, %d equivalent\n",
		short, percent, seen, total[tooSlow], total[survived], total[unreached], known)
	if percent < o.least {
		fmt.Printf("want at least %d%%\n", o.least)
		ok = false
	}
	return ok, nil
}
