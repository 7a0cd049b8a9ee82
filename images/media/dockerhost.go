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
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/cli/cli/connhelper"
	"github.com/moby/moby/client"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// dockerHost is one place where a daemon may listen.
type dockerHost struct {
	URL string // unix:///…, tcp://…, ssh://…, npipe:////./pipe/…
	tls string // folder with ca.pem, cert.pem, key.pem; "" for none
	env bool   // TLS as DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say
}

// dockerHosts lists where to look for a daemon. What the user chose is looked at alone:
// DOCKER_HOST, else the context named by DOCKER_CONTEXT or docker's config (docker(1),
// "context use"). Else the usual places that exist: docker's socket, those of rootless docker
// and Docker Desktop, and podman's.
func dockerHosts() ([]dockerHost, error) {
	if h := os.Getenv(client.EnvOverrideHost); h != "" {
		return []dockerHost{{URL: h, env: true}}, nil
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
		return []dockerHost{h}, nil
	}
	var hosts []dockerHost
	for _, u := range usualHosts() {
		path, unix := strings.CutPrefix(u, "unix://")
		if unix {
			if fi, err := os.Stat(path); err != nil || fi.Mode().Type() != fs.ModeSocket {
				continue
			}
		}
		hosts = append(hosts, dockerHost{URL: u})
	}
	return hosts, nil
}

// usualHosts are the places to look at where the user chose none, whether they exist or not.
func usualHosts() []string {
	hosts := []string{client.DefaultDockerHost}
	if !strings.HasPrefix(client.DefaultDockerHost, "unix:") {
		return hosts
	}
	if home, err := os.UserHomeDir(); err == nil {
		hosts = append(hosts, "unix://"+filepath.Join(home, ".docker/run/docker.sock"))
	}
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		hosts = append(hosts, "unix://"+filepath.Join(run, "docker.sock"))
		hosts = append(hosts, "unix://"+filepath.Join(run, "podman/podman.sock"))
	}
	if h := os.Getenv("CONTAINER_HOST"); h != "" {
		hosts = append(hosts, h)
	}
	return append(hosts, "unix:///run/podman/podman.sock")
}

// dockerConfigDir is where docker keeps its config and contexts.
func dockerConfigDir() (string, error) {
	if d := os.Getenv("DOCKER_CONFIG"); d != "" {
		return d, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".docker"), nil
}

// dockerContext is the name of the context in use, "" for none.
func dockerContext() (string, error) {
	if c := os.Getenv("DOCKER_CONTEXT"); c != "" {
		return c, nil
	}
	dir, err := dockerConfigDir()
	if err != nil {
		return "", nil // no home, no config
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

// contextHost reads a docker context: its folder is the SHA-256 of its name (docker/cli,
// cli/context/store, contextdirOf).
func contextHost(name string) (dockerHost, error) {
	dir, err := dockerConfigDir()
	if err != nil {
		return dockerHost{}, err
	}
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	raw, err := blob.ReadSmall(filepath.Join(dir, "contexts", "meta", id, "meta.json"), blob.MaxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return dockerHost{}, hinterr.With(hinterr.Errorf(hinterr.ErrNoDaemon, "no such context"), "docker context ls")
	}
	if err != nil {
		return dockerHost{}, err
	}
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return dockerHost{}, fmt.Errorf("meta.json: %w", err)
	}
	h := dockerHost{URL: meta.Endpoints["docker"].Host}
	if h.URL == "" {
		return h, hinterr.Errorf(hinterr.ErrNoDaemon, "it has no docker endpoint")
	}
	tls := filepath.Join(dir, "contexts", "tls", id, "docker")
	if fi, err := os.Stat(tls); err == nil && fi.IsDir() {
		h.tls = tls
	}
	return h, nil
}

// pingTime is how long a daemon may take to answer at all: podman's is started by its
// socket, and one may be behind ssh.
const pingTime = 30 * time.Second

// connect makes a client for a host and asks the daemon there for the newest API version
// that both know, so that an old engine (from API 1.40, docker 19.03) and podman do.
func connect(ctx context.Context, h dockerHost, o Options) (*client.Client, error) {
	opts := []client.Opt{client.WithUserAgent(o.UserAgent)}
	switch {
	case strings.HasPrefix(h.URL, "ssh:"):
		helper, err := connhelper.GetConnectionHelper(h.URL)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.URL, err)
		}
		opts = append(opts, client.WithHost(helper.Host), client.WithDialContext(helper.Dialer))
	case h.env:
		opts = append(opts, client.FromEnv)
	case h.tls != "":
		opts = append(opts, client.WithTLSClientConfig(pemIn(h.tls, "ca.pem"), pemIn(h.tls, "cert.pem"), pemIn(h.tls, "key.pem")),
			client.WithHost(h.URL))
	default:
		opts = append(opts, client.WithHost(h.URL))
	}
	c, err := client.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.URL, err)
	}
	ping, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if _, err := c.Ping(ping, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		c.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // the client's own text is three lines of advice
		}
		err = hinterr.Errorf(hinterr.ErrNoDaemon, "no docker or podman daemon at %s: %v", h.URL, err)
		if strings.Contains(err.Error(), "permission denied") {
			err = hinterr.With(err, "this user may not talk to the daemon: use sudo, or a docker group")
		}
		return nil, err
	}
	return c, nil
}

func pemIn(dir, file string) string {
	path := filepath.Join(dir, file)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// EachDaemon calls f with every daemon that answers until it says done. It errs with
// ErrNoDaemon, and what was tried, where none answers.
func EachDaemon(ctx context.Context, only string, o Options, f func(c *client.Client, host string) (done bool, err error)) error {
	hosts, err := dockerHosts()
	if err != nil {
		return err
	}
	var failed []error
	answered := false
	for _, h := range hosts {
		if only != "" && h.URL != only {
			continue
		}
		c, err := connect(ctx, h, o)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		answered = true
		done, err := f(c, h.URL)
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
	}
	return hinterr.Errorf(hinterr.ErrNoDaemon, "no docker or podman daemon: no socket at %s", strings.Join(usualHosts(), ", "))
}
