// Many random programs, seed after seed, compared with what they were before they were patched.
package main

import (
	"bytes"
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
	bare             bool // also what was stripped before it was patched
}

// killed is the exit status of a program that the oracle stops: 128 and SIGSYS.
const killed = 159

// patience bounds one run of a program.
const patience = time.Minute

// seeds makes the programs of each seed from first to last, compares them, and keeps the directories of
// those in which something is wrong, or all. It prints a line a seed.
func seeds(first, last uint64, count int, objects, out string, keep bool, t tools) error {
	total, wrong := 0, 0
	for seed := first; seed <= last; seed++ {
		dir := filepath.Join(out, fmt.Sprint("seed", seed))
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		if err := run(seed, count, objects, dir); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		problems, left, err := t.compare(dir)
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		total, wrong = total+count, wrong+len(problems)
		fmt.Printf("seed %d: %d programs, %d of them keep a call site, %d wrong; so far %d programs, %d wrong\n", seed, count, left, len(problems), total, wrong)
		for _, p := range problems {
			fmt.Println(" ", p)
		}
		if keep || len(problems) > 0 {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d programs are wrong", wrong, total)
	}
	return nil
}

// compare patches the programs of dir as they are, and stripped, and runs each side by side.
// It returns what is wrong, and how many programs keep a call site.
func (t tools) compare(dir string) (problems []string, stay int, err error) {
	bin, after := filepath.Join(dir, "bin"), filepath.Join(dir, "after")
	keeps, err := t.patch(bin, after)
	if err != nil {
		return nil, 0, err
	}
	left := strings.Join(slices.Sorted(maps.Keys(keeps)), "\n")
	for _, again := range []func() error{
		func() error { return os.WriteFile(filepath.Join(dir, "left.txt"), []byte(left), 0o644) },
		func() error { return t.unchanged(after, filepath.Join(dir, "again")) },
		func() error { return t.verify(after, bin) },
	} {
		if err := again(); err != nil {
			problems = append(problems, err.Error())
		}
	}
	// Stripped before and after: what is patched where less is known, and what strip leaves.
	bare, stripped, euStripped := filepath.Join(dir, "bare"), filepath.Join(dir, "stripped"), filepath.Join(dir, "eu-stripped")
	strips := []struct{ tool, from, to string }{{"strip", after, stripped}, {"eu-strip", after, euStripped}}
	if t.bare {
		strips = append(strips, struct{ tool, from, to string }{"strip", bin, bare})
	}
	for _, s := range strips {
		if err := strip(s.tool, s.from, s.to); err != nil {
			return nil, 0, err
		}
	}
	bareAfter, bareKeeps := filepath.Join(dir, "bare-after"), map[string][]string(nil)
	if t.bare {
		if bareKeeps, err = t.patch(bare, bareAfter); err != nil {
			return nil, 0, err
		}
	}
	programs, err := os.ReadFile(filepath.Join(dir, "programs.txt"))
	if err != nil {
		return nil, 0, err
	}
	var (
		wait  sync.WaitGroup
		lock  sync.Mutex
		slots = make(chan struct{}, 2)
	)
	for line := range strings.Lines(string(programs)) {
		name, _, _ := strings.Cut(line, "\t")
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			said, err := t.output(0, filepath.Join(bin, name))
			if i := slices.IndexFunc(keeps[name], assembled.MatchString); err == nil && i >= 0 {
				err = fmt.Errorf("the call site in %s stays", keeps[name][i])
			}
			if err == nil && !strings.Contains(said, " shapes") {
				err = fmt.Errorf("it prints %q", said)
			}
			if err == nil {
				err = errors.Join(t.killed(filepath.Join(bin, name)),
					t.same(said, filepath.Join(after, name), keeps[name] != nil),
					t.same(said, filepath.Join(stripped, name), keeps[name] != nil),
					t.same(said, filepath.Join(euStripped, name), keeps[name] != nil))
			}
			if err == nil && t.bare {
				err = t.same(said, filepath.Join(bareAfter, name), bareKeeps[name] != nil)
			}
			if err != nil {
				lock.Lock()
				defer lock.Unlock()
				problems = append(problems, err.Error()+": "+strings.TrimSpace(line))
			}
		})
	}
	wait.Wait()
	return problems, len(keeps), nil
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

// unchanged patches a patched directory, and compares.
func (t tools) unchanged(after, again string) error {
	if _, err := t.patch(after, again); err != nil {
		return err
	}
	return t.status(0, "diff", "-r", after, again)
}

// verify proves that nothing differs but call sites.
func (t tools) verify(after, bin string) error {
	out, err := exec.Command(t.vfix, "verify", "--format", "json", after, "--against", bin).Output()
	var doc struct {
		Problems, Added []json.RawMessage
		Compared        int
		Result          struct {
			Summary struct {
				Files int `json:"elf_files"`
			}
		}
	}
	if bad := json.Unmarshal(out, &doc); bad != nil {
		return fmt.Errorf("vfix verify %s: %w, %w", after, bad, err)
	}
	if len(doc.Problems) > 0 || len(doc.Added) > 0 {
		return fmt.Errorf("vfix verify %s: %s, added %s", after, doc.Problems, doc.Added)
	}
	files, other, err := differing(bin, after)
	if err == nil && (files != doc.Result.Summary.Files || other != doc.Compared) {
		err = fmt.Errorf("vfix verify %s: %d of %d files compared, want %d of %d", after, doc.Compared, doc.Result.Summary.Files, other, files)
	}
	return err
}

// differing counts the files of a directory, and those that are others in a second one.
func differing(one, two string) (files, other int, err error) {
	entries, err := os.ReadDir(one)
	for _, e := range entries {
		a, bad := os.ReadFile(filepath.Join(one, e.Name()))
		b, worse := os.ReadFile(filepath.Join(two, e.Name()))
		err = errors.Join(err, bad, worse)
		files++
		if !bytes.Equal(a, b) {
			other++
		}
	}
	return files, other, err
}

// killed: the program calls the page, so the oracle stops it.
func (t tools) killed(program string) error { return t.status(killed, t.novsyscall, program) }

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
