// The programs, compared with what they were before they were patched.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tools are what the comparison runs.
type tools struct {
	vfix, novsyscall string
}

// killed is the exit status of a program that the oracle stops: 128 and SIGSYS.
const killed = 159

// patience bounds one run of a program.
const patience = time.Minute

// compare patches the programs of dir, strips what it patched, and runs each side by side.
func (t tools) compare(dir string) error {
	bin, after, again := filepath.Join(dir, "bin"), filepath.Join(dir, "after"), filepath.Join(dir, "again")
	keeps, err := t.patch(bin, after)
	if err != nil {
		return err
	}
	left := strings.Join(slices.Sorted(maps.Keys(keeps)), "\n")
	if err := os.WriteFile(filepath.Join(dir, "left.txt"), []byte(left), 0o644); err != nil {
		return err
	}
	if _, err := t.patch(after, again); err != nil {
		return err
	}
	problems := []error{t.status(0, "diff", "-r", after, again), t.verify(after, bin)}
	sides := []string{after}
	for _, tool := range []string{"strip", "eu-strip"} {
		to := filepath.Join(dir, tool)
		if err := strip(tool, after, to); err != nil {
			return err
		}
		sides = append(sides, to)
	}
	programs, err := os.ReadFile(filepath.Join(dir, "programs.txt"))
	if err != nil {
		return err
	}
	var (
		wait  sync.WaitGroup
		lock  sync.Mutex
		slots = make(chan struct{}, 2)
		count int
	)
	for line := range strings.Lines(string(programs)) {
		name, _, _ := strings.Cut(line, "\t")
		count++
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := t.one(name, bin, sides, keeps[name]); err != nil {
				lock.Lock()
				defer lock.Unlock()
				problems = append(problems, fmt.Errorf("%w: %s", err, strings.TrimSpace(line)))
			}
		})
	}
	wait.Wait()
	fmt.Printf("%d programs, %d of them keep a call site\n", count, len(keeps))
	return errors.Join(problems...)
}

// one runs one program as it was and as it is in the other directories; in those functions vfix leaves a call site.
func (t tools) one(name, bin string, sides, left []string) error {
	program := filepath.Join(bin, name)
	said, err := t.output(0, program)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(left, assembled.MatchString); i >= 0 {
		return fmt.Errorf("the call site in %s stays", left[i])
	}
	if !strings.Contains(said, " shapes") {
		return fmt.Errorf("it prints %q", said)
	}
	if err := t.status(killed, t.novsyscall, program); err != nil { // it calls the page
		return err
	}
	for _, side := range sides {
		if err := t.same(said, filepath.Join(side, name), left != nil); err != nil {
			return err
		}
	}
	return nil
}

// assembled are the names of the functions in assembly (shapes.go): where the file names them, all is patched.
var assembled = regexp.MustCompile(`^p[0-9]+_[0-9]`)

// patch patches a directory, and returns the programs in which vfix leaves a call site, each with the functions that
// these are in.
func (t tools) patch(from, to string) (map[string][]string, error) {
	out, err := exec.Command(t.vfix, "patch", "--format", "json", "-o", to, from).Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3 && exit.ExitCode() != 4) {
		return nil, fmt.Errorf("vfix patch %s: %w: %s", from, err, exit.Stderr)
	}
	var doc struct {
		Results []struct {
			Files []struct {
				Path  string
				Sites []struct{ Form, Verdict, Symbol string }
			}
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, fmt.Errorf("vfix patch %s: %w", from, err)
	}
	keeps := map[string][]string{}
	for _, r := range doc.Results {
		for _, f := range r.Files {
			for _, s := range f.Sites {
				if s.Form == "left" && (s.Verdict == "live" || s.Verdict == "unknown") {
					name := strings.TrimSuffix(filepath.Base(f.Path), ".so")
					keeps[name] = append(keeps[name], s.Symbol)
				}
			}
		}
	}
	return keeps, nil
}

// verify proves that nothing differs but call sites.
func (t tools) verify(after, bin string) error {
	said, _ := exec.Command(t.vfix, "verify", "-q", "--format", "json", after, "--against", bin).Output() // some keep call sites
	var doc struct {
		Problems, Added []json.RawMessage
		Compared        int
	}
	if err := json.Unmarshal(said, &doc); err != nil {
		return fmt.Errorf("vfix verify %s: %w", after, err)
	}
	if len(doc.Problems) > 0 || len(doc.Added) > 0 || doc.Compared == 0 {
		return fmt.Errorf("vfix verify %s: %d files compared, problems %s, added %s", after, doc.Compared, doc.Problems, doc.Added)
	}
	return nil
}

// same: the program prints the same; without calling the page unless a call site is left.
func (t tools) same(want, program string, left bool) error {
	args := []string{t.novsyscall, program}
	if left {
		args = args[1:]
	}
	got, err := t.output(0, args...)
	if err == nil && got != want {
		err = fmt.Errorf("%s: got %q, want %q", program, got, want)
	}
	return err
}

func (t tools) status(want int, args ...string) error {
	_, err := t.output(want, args...)
	return err
}

// output runs a command that shall end with a status, and returns what it prints on stdout.
func (t tools) output(want int, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var said, complaint strings.Builder
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &said, &complaint
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return "", err
	}
	got := cmd.ProcessState.ExitCode()
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		got = 128 + int(w.Signal())
	}
	if got != want {
		return "", fmt.Errorf("%s: got status %d, want %d: %s%s", strings.Join(args, " "), got, want, said.String(), complaint.String())
	}
	return said.String(), nil
}

// strip copies a directory and strips what has section headers, by one of the tools.
func strip(tool, from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		// Without section headers it says so, and leaves the file alone.
		_ = exec.Command(tool, path).Run()
		return nil
	})
}
