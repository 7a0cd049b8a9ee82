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

	"golang.org/x/sys/unix"
)

// The time that vfix-runtime adds to the start of a container, as a wrapper of runc and as its createRuntime hook:
// `create`, and `create`, `start` and `delete` together, against those of plain runc, in turn, on the same
// root filesystem. "Cold" has an empty cache of vfix's (the files themselves are in the kernel's), "warm"
// one that has seen this root.

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
	hooked []byte // the same with the hook
	lower  string // for an overlay, what lies below; "" for a plain directory
	n      int    // containers so far
}

func (b *bench) startup() error {
	if _, err := exec.LookPath("runc"); err != nil || os.Geteuid() != 0 {
		fmt.Print("Start-up: not measured: it takes root and runc\n\n")
		return nil
	}
	// Docker's layout, by which vfix-runtime knows that a layer does not change any more.
	root := filepath.Join(b.dir, "overlay2", strings.Repeat("0123456789abcdef", 4), "diff")
	files, size, err := b.makeRoot(root, startupSize)
	if err != nil {
		return err
	}
	if err := writeStubs(filepath.Join(root, "stubs.so")); err != nil {
		return err
	}
	fmt.Printf("Start-up: through vfix-runtime, or with it as a hook, less that of runc alone, in turn; a root of %.0f MB, %d files\n", float64(size)/1e6, files)
	fmt.Print("Milliseconds: minimum and median; all is create, start and delete; added is what comes to runc's, or with -alone to the empty program's\n\n")
	fmt.Printf("%-14s %-5s %-6s %-13s %16s %16s %13s %7s\n", "root", "cache", "what", "program", "time", "added", "of runc", "rounds")
	for _, kind := range []string{"plain directory", "overlay"} {
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

// makeRoot copies this machine's /usr, up to size bytes, and the empty program, which runs there because it
// is static. Not vfix: it has the page's addresses in it, and takes 0.3 s to examine.
func (b *bench) makeRoot(root string, size int64) (files int, total int64, err error) {
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
	empty, err := b.empty()
	if err == nil {
		err = copyFile(empty, filepath.Join(root, "bin/empty"), 0o755)
	}
	if err != nil {
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

// make makes the bundle: runc's own defaults, without a terminal. A plain directory is read-only.
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
	process["terminal"], process["args"] = false, []string{"/bin/empty"}
	if s.lower != "" {
		root = filepath.Join(s.bundle, "rootfs")
	}
	spec["root"] = map[string]any{"path": root, "readonly": s.lower == ""}
	if s.spec, err = json.Marshal(spec); err != nil {
		return err
	}
	runtime, policy := filepath.Join(filepath.Dir(s.b.vfix), "vfix-runtime"), filepath.Join(s.bundle, "runtime.json")
	spec["hooks"] = map[string]any{"createRuntime": []any{map[string]any{
		"path": runtime, "args": []string{"vfix-runtime", "--vfix-config", policy, "hook"},
	}}}
	if s.hooked, err = json.Marshal(spec); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{"fail_closed": true, "cache_dir": filepath.Join(s.cache, "hook")})
	if err != nil {
		return err
	}
	return os.WriteFile(policy, text, 0o600)
}

func (s *startup) config() string { return filepath.Join(s.bundle, "config.json") }

var errNoOverlay = errors.New("an overlay cannot be mounted here")

// fresh makes the bundle as it is before a container's first start: an engine writes a new
// config.json and mounts a new upper layer for each.
func (s *startup) fresh(spec []byte) (undo func(), err error) {
	// The list of the mounts that an earlier start has added.
	if err := os.RemoveAll(filepath.Join(s.bundle, ".config.json.vfix-mounts")); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.config(), spec, 0o600); err != nil {
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

// variants are what takes turns: runc alone, what stands for it, and each vfix with a cache of its own.
func (s *startup) variants() []variant {
	options := func(cache string) []string {
		return []string{"--runtime", s.real, "--fail-closed", "--cache-dir", filepath.Join(s.cache, cache)}
	}
	all := []variant{{name: "runc alone", command: []string{"runc"}, real: true}}
	if s.b.alone {
		// It makes a control group, which in version 1 takes no process of a real-time priority.
		all[0].command = []string{"chrt", "-o", "0", "runc"}
		all = append(all, variant{name: "empty program", command: []string{s.real}})
	}
	if s.b.before != "" {
		all = append(all, variant{name: "before", command: append([]string{s.b.before, "runtime"}, options("before")...), vfix: true, real: !s.b.alone})
	}
	runtime := filepath.Join(filepath.Dir(s.b.vfix), "vfix-runtime")
	all = append(all, variant{name: "vfix-runtime", command: append([]string{runtime}, options("now")...), vfix: true, real: !s.b.alone})
	if !s.b.alone {
		all = append(all, variant{name: "hook", command: []string{"runc"}, vfix: true, hook: true, real: true})
	}
	return all
}

func (s *startup) measure(kind string) error {
	variants := s.variants()
	base := max(slices.IndexFunc(variants, func(v variant) bool { return v.name == "empty program" }), 0) // what vfix's time is added to
	for _, cache := range []string{"cold", "warm"} {
		rounds := s.b.rounds
		if cache == "warm" {
			const more = 11 // the difference is a small one
			rounds *= more
		}
		var took [2][][]float64 // create, all; by variant
		for i := range took {
			took[i] = make([][]float64, len(variants))
		}
		for range rounds {
			if cache == "cold" {
				if err := os.RemoveAll(s.cache); err != nil {
					return err
				}
			}
			for i, v := range variants {
				ms, err := s.start(v)
				if err != nil {
					return err
				}
				took[0][i], took[1][i] = append(took[0][i], ms[0]), append(took[1][i], ms[1])
			}
		}
		for i, what := range []string{"create", "all"} {
			if what == "all" && s.b.alone {
				break
			}
			for j, v := range variants {
				fmt.Printf("%-14s %-5s %-6s ", kind, cache, what)
				printAdded(v.name, took[i][j], took[i][base], took[i][0], j > base)
			}
		}
	}
	return nil
}

// printAdded prints the times of a variant, and what they are more than those of the base, and of runc.
func printAdded(name string, took, base, runc []float64, compared bool) {
	fmt.Printf("%-13s %7.1f %8.1f", name, slices.Min(took), median(took))
	if !compared {
		fmt.Printf("%*d\n", 39, len(took))
		return
	}
	added := make([]float64, len(took))
	for i := range added {
		added[i] = took[i] - base[i]
	}
	least := slices.Min(took) - slices.Min(base)
	fmt.Printf(" %7.1f %8.1f %7.2f %5.2f%8d\n", least, median(added), least/slices.Min(runc), median(added)/median(runc), len(took))
}
