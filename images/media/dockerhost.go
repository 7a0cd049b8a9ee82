// Where daemons listen, and how to connect to them.

package media

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/engine"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// dockerHosts lists the addresses at which a daemon may be. If the user chose an address, only that is tried:
// DOCKER_HOST, else the context named by DOCKER_CONTEXT or docker's config (docker(1),
// "context use"). Else the usual places that exist: docker's socket, those of rootless docker
// and Docker Desktop, and podman's.
func dockerHosts() ([]engine.Host, error) {
	if h := os.Getenv("DOCKER_HOST"); h != "" {
		return []engine.Host{{URL: h, Env: true}}, nil
	}
	name, err := dockerContext()
	if err != nil {
		return nil, err
	}
	if name != "" && name != "default" {
		h, err := contextHost(name)
		if err != nil {
			return nil, fmt.Errorf("docker context %q: %w", name, err)
		}
		return []engine.Host{h}, nil
	}
	return present(usualHosts()), nil
}

// present are the addresses at which there may be a daemon.
func present(urls []string) (hosts []engine.Host) {
	for _, u := range urls {
		path, unix := strings.CutPrefix(u, "unix://")
		if unix {
			if fi, err := os.Stat(path); err != nil || fi.Mode().Type() != fs.ModeSocket {
				continue
			}
		}
		hosts = append(hosts, engine.Host{URL: u})
	}
	return hosts
}

// anyPodman is the Host of a ref that names an image of podman.
const anyPodman = "podman"

// podmanHosts are the places of podman's socket (podman-system-service(1)).
func podmanHosts() (urls []string) {
	if h := os.Getenv("CONTAINER_HOST"); h != "" {
		urls = append(urls, h)
	}
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		urls = append(urls, "unix://"+filepath.Join(run, "podman/podman.sock"))
	}
	return append(urls, "unix:///run/podman/podman.sock")
}

// hostsFor lists where to look for one daemon, the one at an address or podman's, or "" for any.
func hostsFor(only string) ([]engine.Host, error) {
	if only == anyPodman {
		return present(podmanHosts()), nil
	}
	hosts, err := dockerHosts()
	if err != nil || only == "" {
		return hosts, err
	}
	return slices.DeleteFunc(append(hosts, present(podmanHosts())...), func(h engine.Host) bool { return h.URL != only }), nil
}

// usualHosts are the places to look at if the user chose none, whether they exist or not.
func usualHosts() []string {
	hosts := []string{engine.DefaultHost}
	if !strings.HasPrefix(engine.DefaultHost, "unix:") {
		return hosts
	}
	if home, err := os.UserHomeDir(); err == nil {
		hosts = append(hosts, "unix://"+filepath.Join(home, ".docker/run/docker.sock"))
	}
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		hosts = append(hosts, "unix://"+filepath.Join(run, "docker.sock"))
	}
	return append(hosts, podmanHosts()...)
}

// dockerContext is the name of the context in use, "" for none.
func dockerContext() (string, error) {
	if c := os.Getenv("DOCKER_CONTEXT"); c != "" {
		return c, nil
	}
	dir := registry.DockerDir()
	if dir == "" {
		return "", nil
	}
	path := filepath.Join(dir, "config.json")
	raw, err := blob.ReadSmall(path, blob.MaxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var config struct{ CurrentContext string }
	if err := json.Unmarshal(raw, &config); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return config.CurrentContext, nil
}

// contextHost reads a docker context: its directory is the SHA-256 of its name (docker/cli,
// cli/context/store, contextdirOf).
func contextHost(name string) (engine.Host, error) {
	dir := registry.DockerDir()
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	raw, err := blob.ReadSmall(filepath.Join(dir, "contexts", "meta", id, "meta.json"), blob.MaxConfig)
	if dir == "" || errors.Is(err, fs.ErrNotExist) {
		return engine.Host{}, hinterr.With(hinterr.Errorf(hinterr.ErrNoDaemon, "no such context"), "docker context ls")
	}
	if err != nil {
		return engine.Host{}, err
	}
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return engine.Host{}, fmt.Errorf("meta.json: %w", err)
	}
	h := engine.Host{URL: meta.Endpoints["docker"].Host}
	if h.URL == "" {
		return h, hinterr.Errorf(hinterr.ErrNoDaemon, "it has no docker endpoint")
	}
	tls := filepath.Join(dir, "contexts", "tls", id, "docker")
	if fi, err := os.Stat(tls); err == nil && fi.IsDir() {
		h.TLS = tls
	}
	return h, nil
}

// Answers reports whether a docker or podman daemon answers.
func Answers(ctx context.Context, o Options) bool {
	return EachDaemon(ctx, "", o.WithDefaults(), func(*engine.Client) (bool, error) { return true, nil }) == nil
}

// EachDaemon calls f with every daemon that answers until it says done. It errs with
// ErrNoDaemon, and what was tried, if none answers. only is the Where of a ref: "" for any daemon.
func EachDaemon(ctx context.Context, only string, o Options, f func(c *engine.Client) (done bool, err error)) error {
	hosts, err := hostsFor(only)
	if err != nil {
		return err
	}
	var failed []error
	answered := false
	for _, h := range hosts {
		c, err := engine.Connect(ctx, h, o.UserAgent)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			progress.Debug(o.Progress, "engine %s: %v", h.URL, err)
			failed = append(failed, err)
			continue
		}
		progress.Debug(o.Progress, "engine %s: answers", h.URL)
		answered = true
		done, err := f(c)
		c.Close()
		if done || err != nil {
			return err
		}
	}
	switch {
	case answered:
		return nil
	case len(failed) == 1:
		return failed[0]
	case len(failed) > 1:
		return fmt.Errorf("%w: %w", hinterr.ErrNoDaemon, errors.Join(failed...))
	case only == anyPodman:
		return hinterr.With(hinterr.Errorf(hinterr.ErrNoDaemon, "podman: no socket at %s", strings.Join(podmanHosts(), ", ")),
			"start podman's socket: systemctl start podman.socket (rootless: systemctl --user start podman.socket); or: podman save IMAGE | vfix scan -")
	}
	return hinterr.Errorf(hinterr.ErrNoDaemon, "no docker or podman daemon: no socket at %s", strings.Join(usualHosts(), ", "))
}

// IsNoDaemon reports whether no docker or podman answered.
func IsNoDaemon(err error) bool { return errors.Is(err, hinterr.ErrNoDaemon) }
