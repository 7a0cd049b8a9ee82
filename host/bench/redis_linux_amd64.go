// The redis benchmark: starting redis-server in a root filesystem, and running redis-benchmark against it.

package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"vfix.dev/vfix/host/jail"
	"vfix.dev/vfix/host/probe"
)

const (
	socketName  = "vfix-bench/redis.sock" // in the root filesystem
	redisSocket = "/" + socketName
	// comeUp is how long a server may take until its socket exists.
	comeUp = time.Minute
	// pipeline is how many requests redis-benchmark sends at once: without it, it is the slower side.
	pipeline = "16"
)

// redisTests are the measured commands: the two that everyone knows.
var redisTests = []string{"SET", "GET"}

// redisRate is a line of redis-benchmark --csv, of 2.8 to 7.x, which has further columns from 7.0 on.
var redisRate = regexp.MustCompile(`(?m)^"(SET|GET)","([0-9.]+)"`)

func parseRedis(out []byte) (map[string]float64, error) {
	all := map[string]float64{}
	for _, line := range redisRate.FindAllSubmatch(out, -1) {
		all[string(line[1])], _ = strconv.ParseFloat(string(line[2]), 64)
	}
	if len(all) != len(redisTests) {
		return nil, fmt.Errorf("redis-benchmark printed %d of %d tests: %.80q", len(all), len(redisTests), out)
	}
	return all, nil
}

// measureRedis runs redis-benchmark against redis-server of both root filesystems in turn, over a unix socket.
func measureRedis(ctx context.Context, o Options) ([]Figure, error) {
	side := func(mode, root string) candidate {
		return candidate{mode, func(ctx context.Context) (map[string]float64, error) { return redisRound(ctx, root, o) }}
	}
	return measure(ctx, o.Rounds, []candidate{side(Original, o.Original), side(Rebuilt, o.Rebuilt)}, redisTests, Original)
}

// redisRound starts the server of a root filesystem, runs the benchmark against it, and ends it. The same
// redis-benchmark drives both servers: the rebuilt image's, because the original one would be slowed by the vsyscall
// page itself.
func redisRound(ctx context.Context, side string, o Options) (map[string]float64, error) {
	server, err := prepare(side, "redis-server")
	if err != nil {
		return nil, err
	}
	benchmark, err := prepare(o.Rebuilt, "redis-benchmark")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		out, err := probe.Run(ctx, jail.Command(ctx, side, server, "--port", "0", "--unixsocket", redisSocket, "--unixsocketperm", "777",
			"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", "/vfix-bench"))
		said := bytes.TrimSpace(out.Stdout)
		why := cmp.Or(succeeded(out, err, "the image"), errors.New("status 0"))
		cancel(fmt.Errorf("redis-server ended: %w: %s", why, said[bytes.LastIndexByte(said, '\n')+1:]))
	}()
	defer func() {
		cancel(nil)
		<-ended
	}()
	if err := awaitSocket(ctx, side); err != nil {
		return nil, err
	}
	// The benchmark's root differs from that of the original server: the socket gets a hard link there. Both
	// directories were made by prepare, so their paths have no symlinks.
	if side != o.Rebuilt {
		if err := os.Link(side+redisSocket, o.Rebuilt+redisSocket); err != nil {
			return nil, err
		}
	}
	out, err := probe.Run(ctx, jail.Command(ctx, o.Rebuilt, benchmark, "-s", redisSocket, "-t", strings.ToLower(strings.Join(redisTests, ",")),
		"-n", strconv.Itoa(o.Requests), "-P", pipeline, "--csv"))
	if err := succeeded(out, err, "the image"); err != nil {
		return nil, fmt.Errorf("%s: %w", benchmark, err)
	}
	return parseRedis(out.Stdout)
}

// prepare finds a program in a root filesystem, where redis images or Debian have it, and makes the empty directory in
// which user nobody may create the socket.
func prepare(dir, program string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	const anyone = 0o777
	in := path.Dir(socketName)
	if err := errors.Join(root.RemoveAll(in), root.Mkdir(in, anyone), root.Chmod(in, anyone)); err != nil {
		return "", err
	}
	for _, name := range []string{"usr/local/bin/" + program, "usr/bin/" + program} {
		if _, err := root.Lstat(name); err == nil {
			return "/" + name, nil
		}
	}
	return "", fmt.Errorf("the image has no /usr/local/bin/%s and no /usr/bin/%s", program, program)
}

// awaitSocket waits until the server listens.
func awaitSocket(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, comeUp, fmt.Errorf("redis-server does not listen after %v", comeUp))
	defer cancel()
	for {
		if fi, err := os.Lstat(dir + redisSocket); err == nil && fi.Mode().Type() == fs.ModeSocket && fi.Mode().Perm()&0o007 != 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
