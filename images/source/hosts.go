// Where engines listen, and how to connect to them.

package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// hosts lists the places where the engine of a ref may be. If the user chose an address, only that is tried:
// DOCKER_HOST, else the context named by DOCKER_CONTEXT or docker's config (docker(1), "context use"). Else the usual
// places that exist.
func hosts(r Ref) ([]host, error) {
	podman := present(usualURLs(true))
	if r.Podman && r.Host == "" {
		return podman, nil
	}
	all, err := chosenHosts()
	if err != nil || r.Host == "" {
		return all, err
	}
	return slices.DeleteFunc(append(all, podman...), func(h host) bool { return h.Host != r.Host }), nil
}

func chosenHosts() ([]host, error) {
	if url := os.Getenv("DOCKER_HOST"); url != "" {
		return []host{{EndpointMeta: docker.EndpointMeta{Host: url}}}, nil
	}
	c, err := config.Load(config.Dir())
	if err != nil {
		return nil, err
	}
	name := cmp.Or(os.Getenv("DOCKER_CONTEXT"), c.CurrentContext, "default")
	if name == "default" {
		return present(usualURLs(false)), nil
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

// present are the addresses at which there may be an engine.
func present(urls []string) (all []host) {
	for _, u := range urls {
		path, unix := strings.CutPrefix(u, "unix://")
		if fi, err := os.Stat(path); !unix || err == nil && fi.Mode().Type() == fs.ModeSocket {
			all = append(all, host{EndpointMeta: docker.EndpointMeta{Host: u}})
		}
	}
	return all
}

// usualURLs are the places to look at if the user chose none, whether they exist or not: podman's socket
// (podman-system-service(1)), and unless podman alone is wanted, those of docker, rootless docker and Docker Desktop.
func usualURLs(podman bool) (urls []string) {
	run := os.Getenv("XDG_RUNTIME_DIR")
	if !podman {
		urls = append(urls, client.DefaultDockerHost)
		if home, err := os.UserHomeDir(); err == nil {
			urls = append(urls, "unix://"+filepath.Join(home, ".docker/run/docker.sock"))
		}
		if run != "" {
			urls = append(urls, "unix://"+filepath.Join(run, "docker.sock"))
		}
	}
	if h := os.Getenv("CONTAINER_HOST"); h != "" {
		urls = append(urls, h)
	}
	if run != "" {
		urls = append(urls, "unix://"+filepath.Join(run, "podman/podman.sock"))
	}
	return append(urls, "unix:///run/podman/podman.sock")
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
		progress.Debug(o.Progress, "engine %s: %v", h.Host, err)
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
	case len(failed) > 0:
		return errors.Join(failed...)
	}
	none := hinterr.Errorf(hinterr.ErrNoDaemon, "no docker or podman daemon: no socket at %s", strings.Join(usualURLs(r.Podman), ", "))
	if r.Podman {
		return hinterr.With(none, "start podman's socket: systemctl start podman.socket (rootless: systemctl --user start podman.socket); or: podman save IMAGE | vfix scan -")
	}
	return none
}
