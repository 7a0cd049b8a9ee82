// The configuration of a node, and what the annotations of a container change about it.

package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"vfix.dev/vfix/internal/addedfiles"
	"vfix.dev/vfix/rewriter/find"
)

// Config is the content of the configuration file. The zero value is the default.
type Config struct {
	// Runtime is the path of the real runtime; "" for runc or crun, whichever is found first.
	Runtime string `json:"runtime,omitempty"`
	// Enabled says which containers are patched: Always, or those with the annotation dev.vfix.enable=true (OptIn).
	Enabled string `json:"enabled,omitempty"`
	// Fallback adds the preload library to containers.
	Fallback bool `json:"fallback,omitempty"`
	// Fix lists fixes besides calls of the page, separated by commas.
	Fix string `json:"fix,omitempty"`
	// Required refuses to start a container in which something is left unpatched.
	Required bool `json:"required,omitempty"`
	// State is the directory of the cache and the record; "" for the default.
	State string `json:"state,omitempty"`
}

// The values of Config.Enabled.
const (
	Always = "always"
	OptIn  = "opt-in"
)

// The annotations of a container that overrule the configuration; each is true or false, but Fix a list.
const (
	AnnotationPrefix   = "dev.vfix."
	AnnotationEnable   = AnnotationPrefix + "enable"
	AnnotationFallback = AnnotationPrefix + "fallback"
	AnnotationFix      = AnnotationPrefix + "fix"
	AnnotationRequired = AnnotationPrefix + "required"
)

const (
	systemConfig = "/etc/vfix/vfix.json"
	systemState  = "/var/lib/vfix"
	configName   = "vfix.json"
	recordName   = "starts.jsonl"
)

// ConfigPath is where the configuration file of this user is written.
func ConfigPath() string {
	if dir := userDir("XDG_CONFIG_HOME", ".config"); dir != "" {
		return filepath.Join(dir, configName)
	}
	return systemConfig
}

// RecordPath is the file with one line for each start of a container; others before it are at the same path with ".1".
func (c *Config) RecordPath() string { return filepath.Join(c.StateDir(), recordName) }

// StateDir is the directory of the cache and the record.
func (c *Config) StateDir() string {
	if c.State != "" {
		return c.State
	}
	if dir := userDir("XDG_STATE_HOME", ".local/state"); dir != "" {
		return dir
	}
	return systemState
}

// LoadConfig reads the configuration file: of this user if there is one, else of the system. Without any, it returns the
// default.
func LoadConfig() (Config, error) {
	for _, path := range []string{ConfigPath(), systemConfig} {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Config{}, err
		}
		c, err := ParseConfig(text)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return c, err
	}
	return Config{}, nil
}

// ParseConfig reads the content of a configuration file. With an error, it returns the members that can be used: another
// runtime than the configured one would be worse for a container than no patch.
func ParseConfig(text []byte) (c Config, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(&c)
	if !slices.Contains([]string{"", Always, OptIn}, c.Enabled) {
		err = errors.Join(err, fmt.Errorf("enabled: got %q, want %q or %q", c.Enabled, Always, OptIn))
	}
	for name, path := range map[string]*string{"runtime": &c.Runtime, "state": &c.State} {
		if *path != "" && !filepath.IsAbs(*path) {
			err = errors.Join(err, fmt.Errorf("%s: %q is not an absolute path", name, *path))
			*path = ""
		}
	}
	return c, err
}

// settings are those of one container.
type settings struct {
	enabled, fallback, required bool
	fixes                       []find.Fix
}

// decide applies a container's annotations to the configuration.
func (c *Config) decide(annotations map[string]string) (s settings, err error) {
	s = settings{enabled: c.Enabled != OptIn, fallback: c.Fallback, required: c.Required}
	for name, to := range map[string]*bool{AnnotationEnable: &s.enabled, AnnotationFallback: &s.fallback, AnnotationRequired: &s.required} {
		got := annotations[name]
		if got == "" {
			continue
		}
		if *to, err = strconv.ParseBool(got); err != nil {
			return s, fmt.Errorf("annotation %s: got %q, want true or false", name, got)
		}
	}
	list, from := c.Fix, "configuration: fix"
	if text := annotations[AnnotationFix]; text != "" {
		list, from = text, "annotation "+AnnotationFix
	}
	if list != "" && list != "none" {
		if s.fixes, err = addedfiles.ParseFixes(list); err != nil {
			return s, fmt.Errorf("%s: %w", from, err)
		}
	}
	return s, nil
}

// userDir is vfix's directory among those of one user (XDG Base Directory Specification); "" for root on this machine and
// for a user without a home. A hook may be started without environment: then the home is that of the user outside of the
// user namespace (user_namespaces(7), uid_map).
func userDir(variable, usual string) string {
	var inside, outside int
	text, _ := os.ReadFile("/proc/self/uid_map")
	_, _ = fmt.Sscan(string(text), &inside, &outside)
	uid := outside + os.Geteuid() - inside
	dir, home := os.Getenv(variable), os.Getenv("HOME")
	switch {
	case uid == 0:
		return ""
	case filepath.IsAbs(dir):
		return filepath.Join(dir, "vfix")
	case home == "":
		if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
			home = u.HomeDir
		}
	}
	if filepath.IsAbs(home) {
		return filepath.Join(home, usual, "vfix")
	}
	return ""
}
