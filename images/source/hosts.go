// Where engines listen, and how to connect to them.

package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/context/docker"
	contexts "github.com/docker/cli/cli/context/store"
	"github.com/moby/moby/client"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// Engine is a connection to docker or podman: the calls of docker's API.
type Engine struct {
	*client.Client
	Host string // its URL
}

// host is one place where an engine may listen, with the keys of its context.
type host = docker.Endpoint

// hosts lists the places where an engine may be: the address that the user chose, else the usual sockets that exist, of
// docker, Docker Desktop, rootless docker and podman (podman-system-service(1)).
func hosts() ([]host, error) {
	chosen, err := chosenHost()
	if chosen != nil || err != nil {
		return chosen, err
	}
	home, run := os.Getenv("HOME"), os.Getenv("XDG_RUNTIME_DIR")
	var all []host
	for _, url := range []string{
		client.DefaultDockerHost,
		unixPrefix + filepath.Join(home, ".docker/run/docker.sock"),
		unixPrefix + filepath.Join(run, "docker.sock"),
		os.Getenv("CONTAINER_HOST"),
		unixPrefix + filepath.Join(run, "podman/podman.sock"),
		unixPrefix + "/run/podman/podman.sock",
	} {
		path, unix := strings.CutPrefix(url, unixPrefix)
		if url != "" && (!unix || filepath.IsAbs(path) && isSocket(path)) {
			all = append(all, hostAt(url))
		}
	}
	return all, nil
}

// unixPrefix begins the address of a socket on this machine.
const unixPrefix = "unix://"

func hostAt(url string) host { return host{EndpointMeta: docker.EndpointMeta{Host: url}} }

func isSocket(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().Type() == fs.ModeSocket
}

// chosenHost is the address in DOCKER_HOST, else that of the context named by DOCKER_CONTEXT or docker's config
// (docker(1), "context use"); nil if the user chose none.
func chosenHost() ([]host, error) {
	if url := os.Getenv("DOCKER_HOST"); url != "" {
		return []host{hostAt(url)}, nil
	}
	c, err := config.Load(config.Dir())
	if err != nil {
		return nil, err
	}
	name := cmp.Or(os.Getenv("DOCKER_CONTEXT"), c.CurrentContext, "default")
	if name == "default" {
		return nil, nil
	}
	h, err := contextHost(name)
	if err != nil {
		return nil, fmt.Errorf("docker context %q: %w", name, err)
	}
	return []host{h}, nil
}

// contextHost reads a docker context.
func contextHost(name string) (h host, err error) {
	all := contexts.New(config.ContextStoreDir(), contexts.NewConfig(
		func() any { return &map[string]any{} }, contexts.EndpointTypeGetter(docker.DockerEndpoint, func() any { return &docker.EndpointMeta{} })))
	meta, err := all.GetMetadata(name)
	if errdefs.IsNotFound(err) {
		return h, hinterr.With(hinterr.Errorf(hinterr.ErrNoDaemon, "no such context"), "docker context ls")
	}
	if err != nil {
		return h, err
	}
	endpoint, err := docker.EndpointFromContext(meta)
	if err != nil {
		return h, hinterr.Errorf(hinterr.ErrNoDaemon, "%w", err)
	}
	return docker.WithTLSData(all, name, endpoint)
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
	opts, err := h.ClientOpts() // also of ssh://
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.Host, err)
	}
	if h.Host == os.Getenv("DOCKER_HOST") {
		opts = append([]client.Opt{client.WithTLSClientConfigFromEnv()}, opts...)
	}
	c, err := client.New(append(opts, client.WithUserAgent(userAgent))...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", h.Host, err)
	}
	ping, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	if _, err = c.Ping(ping, client.PingOptions{NegotiateAPIVersion: true}); err == nil {
		return &Engine{c, h.Host}, nil
	}
	c.Close()
	none := hinterr.Errorf(hinterr.ErrNoDaemon, "no docker or podman daemon at %s: %v", h.Host, err)
	if errors.Is(err, fs.ErrPermission) {
		return nil, hinterr.With(none, "this user may not talk to the daemon: use sudo, or a docker group")
	}
	return nil, none
}

// Engines yields every engine that answers, or only the one at an address. They stay usable. If none answers, it yields
// an error with what was tried, an ErrNoDaemon.
func Engines(ctx context.Context, at string, o Options) iter.Seq2[*Engine, error] {
	return func(yield func(*Engine, error) bool) {
		all, err := hosts()
		if at != "" {
			all = slices.DeleteFunc(all, func(h host) bool { return h.Host != at })
		}
		failed := []error{err}
		answered := false
		for _, h := range all {
			e, err := connect(ctx, h, o.UserAgent)
			progress.Debug(o.Progress, "engine %s: %v", h.Host, err)
			switch {
			case ctx.Err() != nil:
				yield(nil, context.Cause(ctx))
				return
			case err != nil:
				failed = append(failed, err)
				continue
			}
			answered = true
			more := yield(e, nil)
			e.Close() // idle connections
			if !more {
				return
			}
		}
		if !answered {
			yield(nil, cmp.Or(errors.Join(failed...), errNoEngine))
		}
	}
}

// errNoEngine is the error if there is no place to look for an engine.
var errNoEngine = hinterr.With(hinterr.Errorf(hinterr.ErrNoDaemon, "no docker or podman daemon: DOCKER_HOST is not set, and no socket is at the usual places"),
	"start docker, or podman's socket: systemctl start podman.socket (rootless: systemctl --user start podman.socket); or: podman save IMAGE | vfix scan -")

// firstEngine returns the first of Engines.
func firstEngine(ctx context.Context, at string, o Options) (e *Engine, err error) {
	for e, err = range Engines(ctx, at, o) {
		break
	}
	return e, err
}

// Answers reports whether a docker or podman daemon answers.
func Answers(ctx context.Context, o Options) bool {
	_, err := firstEngine(ctx, "", o.WithDefaults())
	return err == nil
}
