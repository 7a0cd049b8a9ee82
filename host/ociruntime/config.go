// The configuration of vfix-runtime: its file, defaults and checks.

package ociruntime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/repairs"
)

// ConfigFile is where vfix-runtime looks for its configuration. Engines that start a
// runtime without arguments (containerd's BinaryName, podman) leave no other way to
// tell it anything.
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
	// and crun where there is no runc.
	Runtime string `json:"runtime,omitempty"`
	// FailClosed has a container not start where vfix could not do its work.
	FailClosed bool `json:"fail_closed,omitempty"`
	// AllowDisable lets the annotation dev.vfix.enable=false overrule FailClosed: the node's policy
	// is not the pod author's to turn off.
	AllowDisable bool `json:"allow_disable,omitempty"`
	// CacheDir is where patched copies are kept; "" is DefaultCacheDir, and for who is not root on
	// this machine vfix in the folder of his data (XDG_DATA_HOME).
	CacheDir string `json:"cache_dir,omitempty"`
	// CacheSize bounds them, in bytes; 0 is DefaultCacheSize.
	CacheSize int64 `json:"cache_size,omitempty"`
	// OptIn has only containers with the annotation dev.vfix.enable=true patched.
	OptIn bool `json:"opt_in,omitempty"`
	// Fallback gives containers the preload library unless an annotation says otherwise.
	Fallback bool `json:"fallback,omitempty"`
	// Fix lists repairs beyond calls of the page, as vfix rebuild --fix does: for all containers,
	// unless an annotation says otherwise.
	Fix string `json:"fix,omitempty"`
	// Record is where a line about each start goes: an absolute path, "journald" or "none"; "" is
	// DefaultRecord, and for who is not root on this machine vfix/starts.jsonl in the folder of his
	// state (XDG_STATE_HOME).
	Record string `json:"record,omitempty"`
	// Metrics is a file of counters for node_exporter's textfile collector; "" for none.
	Metrics string `json:"metrics,omitempty"`
	// Limits bound what one start may take.
	Limits Limits `json:"limits,omitzero"`
}

// maxConfig bounds what is read of a configuration, in bytes.
const maxConfig = 1 << 20

// ReadConfig reads a configuration file. One that does not exist is an empty one.
func ReadConfig(path string) (Config, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	if err != nil {
		return Config{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return Config{}, hinterr.With(err, configHint)
	}
	c, err := ParseConfig(b)
	if err != nil {
		return c, hinterr.With(hinterr.Damaged("%s: %w", path, err), configHint)
	}
	return c, nil
}

const configHint = "correct it, or move it away: without it the defaults hold; 'vfix help runtime' lists what it may have"

// ParseConfig reads the content of a configuration file. A field that it does not know is
// an error. What is right beside it comes with the error: a word misspelt elsewhere must not
// turn fail_closed off, or name another runtime.
func ParseConfig(b []byte) (Config, error) {
	var c Config
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(&c)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("unexpected content after the end of the object")
		}
	}
	err = jsonobject.InWords(err)
	if wrong := c.check(); wrong != nil {
		c.CacheDir, c.CacheSize, c.Fix, c.Record, c.Metrics, c.Limits = "", 0, "", "", "", Limits{}
		err = errors.Join(err, wrong)
	}
	return c, err
}

func (c Config) check() error {
	if c.CacheSize < 0 {
		return fmt.Errorf("cache_size: got %d bytes, want 0 or more", c.CacheSize)
	}
	if c.CacheDir != "" && !filepath.IsAbs(c.CacheDir) {
		return fmt.Errorf("cache_dir: %q is no absolute path", c.CacheDir)
	}
	if c.Record != "" && c.Record != starts.Journal && c.Record != starts.None && !filepath.IsAbs(c.Record) {
		return fmt.Errorf("record: got %q, want an absolute path, %q or %q", c.Record, starts.Journal, starts.None)
	}
	if c.Metrics != "" && (!filepath.IsAbs(c.Metrics) || filepath.Ext(c.Metrics) != ".prom") {
		return fmt.Errorf("metrics: got %q, want an absolute path that ends in .prom", c.Metrics)
	}
	if c.Fix != "" {
		if _, err := repairs.Parse(c.Fix); err != nil {
			return fmt.Errorf("fix: %w", err)
		}
	}
	return c.Limits.check()
}

// Bytes is the content of a file that ReadConfig reads as c.
func (c Config) Bytes() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(c, "", "  ")
	return append(b, '\n'), err
}

// Cache is the folder of the cache.
func (c Config) Cache() string { return c.cacheDir() }

// cacheDir and cacheSize fill in the defaults.
func (c Config) cacheDir() string {
	switch {
	case c.CacheDir != "":
		return c.CacheDir
	case !rootless():
		return DefaultCacheDir
	}
	if data := userDir("XDG_DATA_HOME", ".local/share"); data != "" {
		return data
	}
	return DefaultCacheDir
}

// record fills in the default, too; nothing is recorded where a user has no folder.
func (c Config) record() string {
	switch {
	case c.Record != "":
		return c.Record
	case !rootless():
		return DefaultRecord
	}
	if state := userDir("XDG_STATE_HOME", ".local/state"); state != "" {
		return filepath.Join(state, "starts.jsonl")
	}
	return starts.None
}

// userDir is vfix's folder among those of one user (XDG Base Directory Specification); "" for none.
func userDir(variable, usual string) string {
	dir := os.Getenv(variable)
	if home := os.Getenv("HOME"); !filepath.IsAbs(dir) && filepath.IsAbs(home) {
		dir = filepath.Join(home, usual)
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "vfix")
}

// rootless reports whether this process is not root on this machine, whatever it is in a user
// namespace (user_namespaces(7): the first one maps all ids to themselves).
func rootless() bool {
	const all = "0 0 4294967295"
	b, err := os.ReadFile("/proc/self/uid_map")
	return os.Geteuid() != 0 || err == nil && strings.Join(strings.Fields(string(b)), " ") != all
}

func (c Config) cacheSize() int64 {
	if c.CacheSize == 0 {
		return DefaultCacheSize
	}
	return c.CacheSize
}
