// Where engines listen, and how to connect to them.

package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/cli/cli/connhelper"
	"github.com/moby/moby/client"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// Engine is a connection to docker or podman: the calls of docker's API.
type Engine struct {
	*client.Client
	Host string // its URL
}

// host is one place where an engine may listen.
type host struct {
	url string
	tls string // directory with ca.pem, cert.pem, key.pem; "" for none
	env bool   // DOCKER_HOST, with TLS as the variables beside it say
}

// hosts lists the places where the engine of a ref may be. If the user chose an address, only that is tried:
// DOCKER_HOST, else the context named by DOCKER_CONTEXT or docker's config (docker(1), "context use"). Else the usual
// places that exist: docker's socket, those of rootless docker and Docker Desktop, and podman's.
func hosts(r Ref) ([]host, error) {
	if r.Podman && r.Host == "" {
		return present(podmanURLs()), nil
	}
	all, err := chosenHosts()
	if err != nil || r.Host == "" {
		return all, err
	}
	all = append(all, present(podmanURLs())...)
	return slices.DeleteFunc(all, func(h host) bool { return h.url != r.Host }), nil
}

func chosenHosts() ([]host, error) {
	if h := os.Getenv("DOCKER_HOST"); h != "" {
		return []host{{url: h, env: true}}, nil
	}
	name, err := dockerContext()
	if err != nil {
		return nil, err
	}
	if name == "" || name == "default" {
		return present(usualURLs()), nil
	}
	h, err := contextHost(name)
	if err != nil {
		return nil, fmt.Errorf("docker context %q: %w", name, err)
	}
	return []host{h}, nil
}

// present are the addresses at which there may be an engine.
func present(urls []string) (all []host) {
	for _, u := range urls {
		path, unix := strings.CutPrefix(u, "unix://")
		if fi, err := os.Stat(path); !unix || err == nil && fi.Mode().Type() == fs.ModeSocket {
			all = append(all, host{url: u})
		}
	}
	return all
}

// podmanURLs are the places of podman's socket (podman-system-service(1)).
func podmanURLs() (urls []string) {
	if h := os.Getenv("CONTAINER_HOST"); h != "" {
		urls = append(urls, h)
	}
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		urls = append(urls, "unix://"+filepath.Join(run, "podman/podman.sock"))
	}
	return append(urls, "unix:///run/podman/podman.sock")
}

// usualURLs are the places to look at if the user chose none, whether they exist or not.
func usualURLs() []string {
	urls := []string{client.DefaultDockerHost}
	if home, err := os.UserHomeDir(); err == nil {
		urls = append(urls, "unix://"+filepath.Join(home, ".docker/run/docker.sock"))
	}
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" {
		urls = append(urls, "unix://"+filepath.Join(run, "docker.sock"))
	}
	return append(urls, podmanURLs()...)
}

// dockerDir is the directory of docker's configuration and contexts, "" for a user without a home.
func dockerDir() string {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// dockerContext is the name of the context in use, "" for none.
func dockerContext() (string, error) {
	if c := os.Getenv("DOCKER_CONTEXT"); c != "" || dockerDir() == "" {
		return c, nil
	}
	path := filepath.Join(dockerDir(), "config.json")
	raw, err := blob.ReadSmall(path, blob.MaxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var config struct{ CurrentContext string }
	if err == nil {
		err = json.Unmarshal(raw, &config)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return config.CurrentContext, nil
}

// contextHost reads a docker context: its directory is the SHA-256 of its name (docker/cli, cli/context/store,
// contextdirOf).
func contextHost(name string) (host, error) {
	sum := sha256.Sum256([]byte(name))
	contexts, id := filepath.Join(dockerDir(), "contexts"), hex.EncodeToString(sum[:])
	raw, err := blob.ReadSmall(filepath.Join(contexts, "meta", id, "meta.json"), blob.MaxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return host{}, hinterr.With(hinterr.Errorf(hinterr.ErrNoDaemon, "no such context"), "docker context ls")
	}
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	if err == nil {
		err = json.Unmarshal(raw, &meta)
	}
	if err != nil {
		return host{}, err
	}
	h := host{url: meta.Endpoints["docker"].Host}
	if h.url == "" {
		return h, hinterr.Errorf(hinterr.ErrNoDaemon, "it has no docker endpoint")
	}
	if dir := filepath.Join(contexts, "tls", id, "docker"); isDir(dir) {
		h.tls = dir
	}
	return h, nil
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// pingTime is how long an engine may take to answer at all: podman's is started by its socket, and one may be behind
// ssh.
const pingTime = 30 * time.Second

// connect makes a client for a host, of the newest API version that both know.
func connect(ctx context.Context, h host, userAgent string) (*Engine, error) {
	opts := []client.Opt{client.WithUserAgent(userAgent)}
	if h.env {
		opts = append(opts, client.WithTLSClientConfigFromEnv(), client.WithAPIVersionFromEnv())
	}
	if h.tls != "" {
		in := func(file string) string {
			if path := filepath.Join(h.tls, file); !errors.Is(statOf(path), fs.ErrNotExist) {
				return path
			}
			return ""
		}
		opts = append(opts, client.WithTLSClientConfig(in("ca.pem"), in("cert.pem"), in("key.pem")))
	}
	helper, err := connhelper.GetConnectionHelper(h.url) // for ssh://
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.url, err)
	}
	if helper != nil {
		opts = append(opts, client.WithHTTPClient(&http.Client{Transport: &http.Transport{}}), client.WithHost(helper.Host), client.WithDialContext(helper.Dialer))
	} else {
		opts = append(opts, client.WithHost(h.url))
	}
	c, err := client.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.url, err)
	}
	ping, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if _, err := c.Ping(ping, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		c.Close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		none := hinterr.Errorf(hinterr.ErrNoDaemon, "no docker or podman daemon at %s: %v", h.url, err)
		if errors.Is(err, fs.ErrPermission) {
			return nil, hinterr.With(none, "this user may not talk to the daemon: use sudo, or a docker group")
		}
		return nil, none
	}
	return &Engine{c, h.url}, nil
}

func statOf(path string) error {
	_, err := os.Stat(path)
	return err
}

// Answers reports whether a docker or podman daemon answers.
func Answers(ctx context.Context, o Options) bool {
	return EachEngine(ctx, Ref{}, o.WithDefaults(), func(*Engine) (bool, error) { return true, nil }) == nil
}

// EachEngine calls f for every engine that answers and may be that of r, until f says done. It errs with ErrNoDaemon,
// and what was tried, if none answers.
func EachEngine(ctx context.Context, r Ref, o Options, f func(*Engine) (done bool, err error)) error {
	all, err := hosts(r)
	if err != nil {
		return err
	}
	var failed []error
	answered := false
	for _, h := range all {
		e, err := connect(ctx, h, o.UserAgent)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		progress.Debug(o.Progress, "engine %s: %v", h.url, err)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		answered = true
		done, err := f(e)
		e.Close()
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
	case r.Podman:
		return hinterr.With(hinterr.Errorf(hinterr.ErrNoDaemon, "podman: no socket at %s", strings.Join(podmanURLs(), ", ")),
			"start podman's socket: systemctl start podman.socket (rootless: systemctl --user start podman.socket); or: podman save IMAGE | vfix scan -")
	}
	return hinterr.Errorf(hinterr.ErrNoDaemon, "no docker or podman daemon: no socket at %s", strings.Join(usualURLs(), ", "))
}

// IsNoDaemon reports whether no docker or podman answered.
func IsNoDaemon(err error) bool { return errors.Is(err, hinterr.ErrNoDaemon) }
