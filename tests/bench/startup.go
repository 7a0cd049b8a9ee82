package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What vfix-runtime adds to the start of a container: `create` through it against `create` of
// plain runc, in turn, on the same root filesystem. "Cold" has an empty cache of vfix's (the
// files themselves are in the kernel's), "warm" one that has seen this root.

const (
	// startupSize is the size of the root filesystem, in bytes.
	startupSize = 500e6
	// startupFile is the largest file taken, in bytes: a root of that size has thousands.
	startupFile = 3e6
)

// startup is one kind of root filesystem.
type startup struct {
	b      *bench
	bundle string
	cache  string
	real   string // the runtime that vfix-runtime executes
	spec   []byte // config.json before anybody changed it
	lower  string // for an overlay, what lies below; "" for a plain folder
	n      int    // containers so far
}

func (b *bench) startup() error {
	if _, err := exec.LookPath("runc"); err != nil || os.Geteuid() != 0 {
		fmt.Print("Start-up: not measured: it takes root and runc\n\n")
		return nil
	}
	// Docker's layout, by which vfix-runtime knows that a layer does not change any more.
	root := filepath.Join(b.dir, "overlay2", strings.Repeat("0123456789abcdef", 4), "diff")
	files, size, err := makeRoot(root, startupSize)
	if err != nil {
		return err
	}
	if err := writeStubs(filepath.Join(root, "stubs.so")); err != nil {
		return err
	}
	fmt.Printf("Start-up: `create` through vfix-runtime less that of runc alone, in turn; a root of %.0f MB, %d files\n", float64(size)/1e6, files)
	fmt.Print("Milliseconds: minimum and median; added is what comes to runc's, or with -alone to the empty program's\n\n")
	fmt.Printf("%-14s %-5s %-13s %16s %16s %13s %7s\n", "root", "cache", "program", "create", "added", "of runc", "rounds")
	for _, kind := range []string{"plain folder", "overlay"} {
		s := &startup{b: b, real: "runc", bundle: filepath.Join(b.dir, "bundle"+strconv.Itoa(len(kind))), cache: filepath.Join(b.dir, "startup-cache")}
		if kind == "overlay" {
			s.lower = root
		}
		if b.alone {
			if s.real, err = b.empty(); err != nil {
				return err
			}
		}
		if err := s.make(root); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		if err := s.measure(kind); errors.Is(err, errNoOverlay) {
			fmt.Printf("%-14s not measured: %v\n", kind, err)
		} else if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	fmt.Println()
	return nil
}

// makeRoot copies this machine's /usr, up to size bytes, and busybox, which runs there.
func makeRoot(root string, size int64) (files int, total int64, err error) {
	copyFile := func(from, to string, mode fs.FileMode) error {
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		in, err := os.Open(from)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
		if err != nil {
			return err
		}
		n, err := io.Copy(out, in)
		files++
		total += n
		return errors.Join(err, out.Close())
	}
	if err := copyFile("/bin/busybox", filepath.Join(root, "bin/busybox"), 0o755); err != nil {
		return 0, 0, err
	}
	err = filepath.WalkDir("/usr", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if total >= size {
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil || info.Size() > startupFile {
			return nil
		}
		return copyFile(path, filepath.Join(root, path), info.Mode().Perm())
	})
	return files, total, err
}

// make makes the bundle: runc's own defaults, without a terminal.
func (s *startup) make(root string) error {
	if err := os.MkdirAll(filepath.Join(s.bundle, "rootfs"), 0o755); err != nil {
		return err
	}
	cmd := exec.Command("runc", "spec")
	cmd.Dir = s.bundle
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("runc spec: %w: %s", err, out)
	}
	raw, err := os.ReadFile(s.config())
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return err
	}
	process := spec["process"].(map[string]any)
	process["terminal"], process["args"] = false, []string{"/bin/busybox", "true"}
	if s.lower != "" {
		root = filepath.Join(s.bundle, "rootfs")
	}
	spec["root"] = map[string]any{"path": root, "readonly": false}
	s.spec, err = json.Marshal(spec)
	return err
}

func (s *startup) config() string { return filepath.Join(s.bundle, "config.json") }

var errNoOverlay = errors.New("an overlay cannot be mounted here")

// fresh makes the bundle as it is before a container's first start: an engine writes a new
// config.json and mounts a new upper layer for each.
func (s *startup) fresh() (undo func(), err error) {
	if err := os.WriteFile(s.config(), s.spec, 0o600); err != nil {
		return nil, err
	}
	if s.lower == "" {
		return func() {}, nil
	}
	upper, work, at := filepath.Join(s.bundle, "upper"), filepath.Join(s.bundle, "work"), filepath.Join(s.bundle, "rootfs")
	for _, dir := range []string{upper, work} {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
			return nil, err
		}
	}
	if err := unix.Mount("overlay", at, "overlay", 0, "lowerdir="+s.lower+",upperdir="+upper+",workdir="+work); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoOverlay, err)
	}
	return func() { _ = unix.Unmount(at, unix.MNT_DETACH) }, nil
}

// create makes a container and returns how long that took, in milliseconds.
func (s *startup) create(program []string) (float64, error) {
	undo, err := s.fresh()
	if err != nil {
		return 0, err
	}
	defer undo()
	s.n++
	id := fmt.Sprintf("vfix-bench-%d-%d", os.Getpid(), s.n)
	cmd := exec.Command(program[0], append(program[1:], "--root", filepath.Join(s.b.dir, "runc"), "create", "--bundle", s.bundle, id)...)
	// The container's init keeps what it inherits: files, so that nobody waits for them.
	messages, err := os.Create(filepath.Join(s.b.dir, "messages"))
	if err != nil {
		return 0, err
	}
	defer messages.Close()
	cmd.Stdout, cmd.Stderr = messages, messages
	start := time.Now()
	err = cmd.Run()
	took := time.Since(start)
	if err != nil {
		text, _ := os.ReadFile(messages.Name())
		return 0, fmt.Errorf("%v: %w: %s", program, err, text)
	}
	if slices.Contains(program, "--cache-dir") {
		if err := s.patched(); err != nil {
			return 0, err
		}
	}
	if !slices.Contains(program, "runc") {
		return float64(took.Microseconds()) / 1e3, nil
	}
	out, err := exec.Command("runc", "--root", filepath.Join(s.b.dir, "runc"), "delete", "--force", id).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("runc delete: %w: %s", err, out)
	}
	return float64(took.Microseconds()) / 1e3, nil
}

// patched checks that vfix-runtime did its work: in the upper layer, or by a mount.
func (s *startup) patched() error {
	if s.lower != "" {
		_, err := os.Stat(filepath.Join(s.bundle, "upper/stubs.so"))
		return err
	}
	raw, err := os.ReadFile(s.config())
	if err == nil && !strings.Contains(string(raw), `"/stubs.so"`) {
		err = errors.New("config.json has no mount at /stubs.so")
	}
	return err
}

// programs are what takes turns: runc alone, what stands for it, and each vfix with a cache of its own.
func (s *startup) programs() (names []string, programs [][]string) {
	add := func(name string, program ...string) {
		names, programs = append(names, name), append(programs, program)
	}
	options := func(cache string) []string {
		return []string{"--runtime", s.real, "--fail-closed", "--cache-dir", filepath.Join(s.cache, cache)}
	}
	// It makes a control group, which takes no process of a real-time priority.
	add("runc alone", "chrt", "-o", "0", "runc")
	if s.b.alone {
		add("empty program", s.real)
	}
	if s.b.before != "" {
		add("before", append([]string{s.b.before, "runtime"}, options("before")...)...)
	}
	add("vfix-runtime", append([]string{filepath.Join(filepath.Dir(s.b.vfix), "vfix-runtime")}, options("now")...)...)
	return names, programs
}

func (s *startup) measure(kind string) error {
	names, programs := s.programs()
	base := slices.Index(names, "empty program") // what vfix's time is added to
	base = max(base, 0)
	for _, cache := range []string{"cold", "warm"} {
		rounds := s.b.rounds
		if cache == "warm" {
			const more = 11 // the difference is a small one
			rounds *= more
		}
		took := make([][]float64, len(programs))
		for range rounds {
			if cache == "cold" {
				if err := os.RemoveAll(s.cache); err != nil {
					return err
				}
			}
			for i, p := range programs {
				ms, err := s.create(p)
				if err != nil {
					return err
				}
				took[i] = append(took[i], ms)
			}
		}
		for i, name := range names {
			added := make([]float64, rounds)
			for r := range added {
				added[r] = took[i][r] - took[base][r]
			}
			fmt.Printf("%-14s %-5s %-13s %7.1f %8.1f", kind, cache, name, slices.Min(took[i]), median(took[i]))
			if i > base {
				least := slices.Min(took[i]) - slices.Min(took[base])
				fmt.Printf(" %7.1f %8.1f %7.2f %5.2f", least, median(added), least/slices.Min(took[0]), median(added)/median(took[0]))
			}
			fmt.Printf("%*d\n", map[bool]int{true: 39, false: 8}[i <= base], rounds)
		}
	}
	return nil
}
