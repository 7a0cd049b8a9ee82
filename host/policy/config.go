// The configuration of vfix-runtime: its file, defaults and checks.

// Package policy decides which settings apply to a start of a container, in one place for its three callers:
// the runtime vfix-runtime, its OCI hook and the NRI plugin.
//
//	config    the configuration file, which an operator writes: its content, defaults and checks
//	inforce   which configuration is in force: that of the file, else the last good one, else the closed default
//	decide    what the annotations of a container change about it
//
// One rule: nothing that is broken, missing or unknown makes the policy less strict. Only an operator's
// correct file does, and an annotation only as far as that file permits it.
package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/internal/fixes"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/nodefile"
)

// ConfigFile is the place of vfix-runtime's configuration. Engines that start a
// runtime without arguments (containerd's BinaryName, podman) leave no other way to pass options.
const ConfigFile = "/etc/vfix/runtime.json"

// Defaults of a Config.
const (
	DefaultCacheDir  = "/var/lib/vfix"
	DefaultCacheSize = 2 << 30 // bytes
	DefaultRecord    = "/var/log/vfix/starts.jsonl"
)

// Config is the content of ConfigFile. The zero value is the default.
type Config struct {
	// Runtime is the real runtime: a path, or a name that is looked up in PATH. "" is runc,
	// and crun without a runc.
	Runtime string `json:"runtime,omitempty"`
	// FailClosed prevents the start of a container if vfix could not do its work.
	FailClosed bool `json:"fail_closed,omitempty"`
	// AllowDisable lets the annotation dev.vfix.enable=false overrule FailClosed: by default a pod's author
	// cannot turn off the node's policy.
	AllowDisable bool `json:"allow_disable,omitempty"`
	// CacheDir is where patched copies are kept; "" is DefaultCacheDir, and for users other than root vfix in
	// their data directory (XDG_DATA_HOME).
	CacheDir string `json:"cache_dir,omitempty"`
	// CacheSize bounds them, in bytes; 0 is DefaultCacheSize.
	CacheSize int64 `json:"cache_size,omitempty"`
	// OptIn limits patching to containers with the annotation dev.vfix.enable=true.
	OptIn bool `json:"opt_in,omitempty"`
	// Fallback gives containers the preload library unless an annotation says otherwise.
	Fallback bool `json:"fallback,omitempty"`
	// Fix lists fixes beyond calls of the page, as vfix rebuild --fix does: for all containers,
	// unless an annotation says otherwise.
	Fix string `json:"fix,omitempty"`
	// Record is where a line about each start goes: an absolute path, "journald" or "none"; "" is
	// DefaultRecord, and for users other than root vfix/starts.jsonl in their state directory (XDG_STATE_HOME).
	Record string `json:"record,omitempty"`
	// Metrics is a file of counters for node_exporter's textfile collector; "" for none.
	Metrics string `json:"metrics,omitempty"`
	// TrustedHooks are the paths of other programs' OCI hooks, of runtimes and of seccomp agents that bring no programs into
	// containers, separated by commas. Any other counts as something that was not examined.
	TrustedHooks string `json:"trusted_hooks,omitempty"`
	// TrustedFilesystems are the kinds of file systems, as /proc/self/mountinfo names them and separated by commas, whose
	// servers the operator trusts to show containers and vfix the same files.
	TrustedFilesystems string `json:"trusted_filesystems,omitempty"`
	// ImmutableRoots are directories, without symlinks in their paths and separated by commas, below which nobody changes a
	// root filesystem: one that the container cannot write to is walked at its first start, like a layer of an image.
	ImmutableRoots string `json:"immutable_roots,omitempty"`
	// Limits bound what one start may take.
	Limits Limits `json:"limits,omitzero"`
}

// maxConfig bounds what is read of a configuration, in bytes.
const maxConfig = 1 << 20

// Read reads a configuration file. One that is not there is fs.ErrNotExist; anything else at its path than
// a file of the documented content is another error: a symlink that leads nowhere, a directory, a FIFO.
func Read(path string) (Config, []byte, error) {
	text, err := nodefile.Read(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lerr := os.Lstat(path); lerr == nil {
			err = fmt.Errorf("%s: a symlink that leads nowhere", path)
		}
	}
	if err != nil {
		return Config{}, nil, hinterr.With(err, configHint)
	}
	c, err := Parse(text)
	if err != nil {
		return Config{}, nil, hinterr.With(hinterr.Damaged("%s: %w", path, err), configHint)
	}
	return c, text, nil
}

const configHint = "correct it, or write {} to it for the defaults; 'vfix runtime check' reads it, 'vfix help runtime' lists what it may have"

// Parse reads the content of a configuration file. Its errors name the line.
func Parse(text []byte) (Config, error) {
	var c Config
	if err := jsonobject.Strict(text, &c, func() (string, error) { return c.check() }); err != nil {
		return Config{}, err
	}
	return c, nil
}

// check finds a member with an invalid value.
func (c Config) check() (member string, err error) {
	for _, n := range []struct {
		member    string
		got, most float64
	}{
		{"cache_size", float64(c.CacheSize), mostBytes}, {"limits.names", float64(c.Limits.Names), mostBytes},
		{"limits.copy_bytes", float64(c.Limits.CopyBytes), mostBytes}, {"limits.memory_bytes", float64(c.Limits.MemoryBytes), mostBytes},
		{"limits.seconds", c.Limits.Seconds, mostSeconds},
	} {
		if n.got < 0 || n.got > n.most {
			return n.member, fmt.Errorf("got %v, want 0 to %.0f", n.got, n.most)
		}
	}
	for _, name := range []struct{ member, got string }{
		{"runtime", c.Runtime}, {"cache_dir", c.CacheDir}, {"record", c.Record}, {"metrics", c.Metrics}, {"trusted_hooks", c.TrustedHooks}, {"immutable_roots", c.ImmutableRoots},
	} {
		if strings.ContainsRune(name.got, 0) {
			return name.member, fmt.Errorf("got %q, which is not a valid file name", name.got)
		}
	}
	if c.CacheDir != "" && !filepath.IsAbs(c.CacheDir) {
		return "cache_dir", fmt.Errorf("%q is not an absolute path", c.CacheDir)
	}
	if c.Record != "" && c.Record != starts.Journal && c.Record != starts.None && !filepath.IsAbs(c.Record) {
		return "record", fmt.Errorf("got %q, want an absolute path, %q or %q", c.Record, starts.Journal, starts.None)
	}
	if c.Metrics != "" && (!filepath.IsAbs(c.Metrics) || filepath.Ext(c.Metrics) != ".prom") {
		return "metrics", fmt.Errorf("got %q, want an absolute path that ends in .prom", c.Metrics)
	}
	for _, list := range []struct{ member, paths string }{{"trusted_hooks", c.TrustedHooks}, {"immutable_roots", c.ImmutableRoots}} {
		for path := range strings.SplitSeq(list.paths, ",") {
			if list.paths != "" && (!filepath.IsAbs(path) || filepath.Clean(path) != path) {
				return list.member, fmt.Errorf("%q is not an absolute path in its shortest form", path)
			}
		}
	}
	if strings.ContainsAny(c.TrustedFilesystems, " /") {
		return "trusted_filesystems", fmt.Errorf("got %q, want names as in /proc/filesystems, separated by commas", c.TrustedFilesystems)
	}
	if c.Fix != "" {
		_, err = fixes.Parse(c.Fix)
	}
	return "fix", err
}

// The maximum of each bound of a Config: bytes or names, and seconds.
const (
	mostBytes   = 1 << 50
	mostSeconds = 24 * 60 * 60
)

// Bytes is the content of a file that Read reads as c.
func (c Config) Bytes() ([]byte, error) {
	if member, err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", member, err)
	}
	b, err := json.MarshalIndent(c, "", "  ")
	return append(b, '\n'), err
}

// Cache is the directory of the cache.
func (c Config) Cache() string {
	if c.CacheDir != "" {
		return c.CacheDir
	}
	return ownDir()
}

// ownDir is vfix's directory if no configuration names one.
func ownDir() string {
	if data := userDir("XDG_DATA_HOME", ".local/share"); data != "" && Rootless() {
		return data
	}
	return DefaultCacheDir
}

// CacheBytes bounds the cache.
func (c Config) CacheBytes() int64 {
	if c.CacheSize == 0 {
		return DefaultCacheSize
	}
	return c.CacheSize
}

// RecordFile is where starts are recorded: a path, or a word of package starts; nowhere for a user without a directory.
func (c Config) RecordFile() string {
	switch {
	case c.Record != "":
		return c.Record
	case !Rootless():
		return DefaultRecord
	}
	if state := userDir("XDG_STATE_HOME", ".local/state"); state != "" {
		return filepath.Join(state, "starts.jsonl")
	}
	return starts.None
}

// overtime is how long a hook may take beyond limits.seconds, which are looked at between two files.
const overtime = 10 * time.Second

// HookLimit is when a hook gives up on something that hangs.
func (c Config) HookLimit() time.Duration {
	return time.Duration(c.Limits.WithDefaults().Seconds*float64(time.Second)) + overtime
}

// HookTimeout is when a runtime may end a hook: by then it has ended by itself.
func (c Config) HookTimeout() time.Duration { return c.HookLimit() + overtime }

// Limits bound what one start may take: the image is hostile, and the work is done before the
// container's own limits hold. 0 is the default.
type Limits struct {
	// Names is how many files and directories are looked at, layers together.
	Names int `json:"names,omitempty"`
	// CopyBytes is how many bytes of patched copies are made or given out.
	CopyBytes int64 `json:"copy_bytes,omitempty"`
	// Seconds is how long the root is examined, and files are copied.
	Seconds float64 `json:"seconds,omitempty"`
	// MemoryBytes is how much memory vfix takes.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
}

// The defaults: about ten times what the largest images need.
const (
	DefaultNames       = 2 << 20
	DefaultCopyBytes   = 1 << 30
	DefaultSeconds     = 60
	DefaultMemoryBytes = 512 << 20
)

// WithDefaults fills in what is 0.
func (l Limits) WithDefaults() Limits {
	return Limits{
		cmp.Or(l.Names, DefaultNames), cmp.Or(l.CopyBytes, DefaultCopyBytes),
		cmp.Or(l.Seconds, DefaultSeconds), cmp.Or(l.MemoryBytes, DefaultMemoryBytes),
	}
}

// userDir is vfix's directory among those of one user (XDG Base Directory Specification); "" for none.
func userDir(variable, usual string) string {
	dir := os.Getenv(variable)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(os.Getenv("HOME"), usual)
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "vfix")
}

// Rootless reports whether this process is not root on this machine, regardless of its user namespace
// (user_namespaces(7): the first one maps all ids to themselves).
var Rootless = sync.OnceValue(func() bool {
	const all = "0 0 4294967295"
	b, err := nodefile.Text("/proc/self/uid_map")
	return os.Geteuid() != 0 || err == nil && strings.Join(strings.Fields(string(b)), " ") != all
})
