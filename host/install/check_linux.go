// The start of a container through the installed runtime: a bundle with one legacy program and no
// network, in a directory and with a cache of its own, below the cache of the configuration.

package install

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/internal/tinyelf"
)

// checkTime is how long the container may take.
const checkTime = 30 * time.Second

// run runs the installed program: its version, and a container.
func (c *Checked) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	program := filepath.Join(filepath.Dir(c.Program), programName)
	out, err := exec.CommandContext(ctx, program, "version", "--format", "json").Output()
	var v struct {
		Version string `json:"version"`
	}
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	if err != nil {
		c.problem("%s version: %v", program, err)
		return
	}
	c.Version = v.Version
	c.Start = &CheckedStart{}
	begun := time.Now()
	if err := c.start(ctx); err != nil {
		c.problem("start of a container: %v", err)
	} else {
		c.Start.OK = true
	}
	c.Start.Seconds = time.Since(begun).Seconds()
}

// start runs the container, and leaves nothing of it.
func (c *Checked) start(ctx context.Context) (err error) {
	p := policy.Load("", false, "")
	if why := p.Why(); why != "" {
		c.problem("%s", why)
	}
	config := p.Config
	c.Start.Runtime = config.Runtime
	base := config.Cache()
	if _, err := os.Stat(base); errors.Is(err, fs.ErrNotExist) {
		defer os.Remove(base)
	}
	if err := os.MkdirAll(base, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(base, "check-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// The same policy and file system as any start, but nothing is recorded.
	config.CacheDir, config.Record, config.Metrics = filepath.Join(dir, "cache"), starts.None, ""
	if err := bundle(dir, config); err != nil {
		return err
	}
	id := "vfix-" + filepath.Base(dir)
	options := []string{"--vfix-config", filepath.Join(dir, "runtime.json"), "--cache-dir", config.CacheDir, "--root", filepath.Join(dir, "state"), "--log", filepath.Join(dir, "log")}
	command := func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, c.Program, append(append([]string{}, options...), args...)...)
	}
	defer func() {
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTime)
		defer cancel()
		_ = command(over, "delete", "--force", id).Run() // gone already, if all went well
	}()
	out, err := command(ctx, "run", "--bundle", filepath.Join(dir, "bundle"), id).CombinedOutput()
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	return outcome(err, lastLines(append(log, out...)))
}

func outcome(err error, said string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	const segv = 128 + 11
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		switch e.ExitCode() {
		case tinyelf.Unpatched:
			text = "the program ran, but it is not patched"
		case tinyelf.NoTime:
			text = "the patched program got no time"
		case segv:
			text = "the program was not patched, and this kernel has no vsyscall page"
		}
	}
	return errors.New(strings.TrimSuffix(text+": "+said, ": "))
}

// bundle writes an OCI bundle (runtime-spec, bundle.md) and the configuration of vfix-runtime.
func bundle(dir string, config policy.Config) error {
	const private, programs = 0o700, 0o755
	root := filepath.Join(dir, "bundle", "rootfs")
	if err := os.MkdirAll(filepath.Join(root, "proc"), private); err != nil {
		return err
	}
	type object = map[string]any
	var namespaces []object
	for _, kind := range []string{"pid", "mount", "network", "ipc", "uts"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	text, err := json.Marshal(object{
		"ociVersion":  "1.0.2",
		"annotations": object{policy.AnnotationEnable: "true"},
		"root":        object{"path": "rootfs", "readonly": true},
		"process":     object{"user": object{"uid": 0, "gid": 0}, "args": []string{"/legacy"}, "cwd": "/", "noNewPrivileges": true},
		"mounts":      []object{{"destination": "/proc", "type": "proc", "source": "proc"}},
		"linux":       object{"namespaces": namespaces},
	})
	if err != nil {
		return err
	}
	runtimeJSON, err := config.Bytes()
	if err != nil {
		return err
	}
	const number = 18 // 2.6.18, as in binaries of that time
	return errors.Join(
		os.WriteFile(filepath.Join(root, "legacy"), tinyelf.Bytes(number), programs),
		os.WriteFile(filepath.Join(dir, "bundle", "config.json"), text, private),
		os.WriteFile(filepath.Join(dir, "runtime.json"), runtimeJSON, private))
}
