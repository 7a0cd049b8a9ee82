// The redis benchmark: starting redis-server in a root filesystem, and running redis-benchmark against it.

package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
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
	// ended is how long it may take to end.
	ended = 10 * time.Second
)

// redisTests are the measured commands: the two that everyone knows.
var redisTests = []string{"SET", "GET"}

// parseRedis reads the output of redis-benchmark --csv, of 2.8 to 7.x: "SET","196078.44", with further columns and a
// head from 7.0 on.
func parseRedis(out []byte) (map[string]float64, error) {
	r := csv.NewReader(strings.NewReader(string(out)))
	r.FieldsPerRecord = -1
	records, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("redis-benchmark: %w", err)
	}
	all := map[string]float64{}
	for _, record := range records {
		if len(record) < 2 || !slices.Contains(redisTests, record[0]) {
			continue
		}
		if n, err := strconv.ParseFloat(record[1], 64); err == nil && n > 0 {
			all[record[0]] = n
		}
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
	own, server, err := rootWith(side, "redis-server")
	if err != nil {
		return nil, err
	}
	defer own.Close()
	rebuilt, benchmark, err := rootWith(o.Rebuilt, "redis-benchmark")
	if err != nil {
		return nil, err
	}
	defer rebuilt.Close()
	if err := errors.Join(socketDir(own), socketDir(rebuilt)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan string, 1) // why the server ended
	go func() {
		cmd := jail.Command(ctx, side, server, "--port", "0", "--unixsocket", redisSocket, "--unixsocketperm", "777",
			"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", "/vfix-bench")
		cmd.WaitDelay = ended
		out, err := probe.Run(ctx, cmd)
		said := bytes.TrimSpace(out.Stdout)
		why := ""
		if err := succeeded(out, err, "the image"); err != nil {
			why = err.Error() + " "
		}
		gone <- why + string(said[bytes.LastIndexByte(said, '\n')+1:])
		close(gone)
	}()
	defer func() {
		cancel()
		for range gone { // until it has ended
		}
	}()
	if err := awaitSocket(ctx, own, gone); err != nil {
		return nil, err
	}
	// The benchmark's root differs from that of the original server: the socket gets a hard link there. Both
	// directories were made by socketDir, so their paths have no symlinks.
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

// rootWith opens a root filesystem that has a program where redis images or Debian have it.
func rootWith(dir, program string) (root *os.Root, name string, err error) {
	if root, err = os.OpenRoot(dir); err != nil {
		return nil, "", err
	}
	for _, in := range []string{"/usr/local/bin/", "/usr/bin/"} {
		if _, err := root.Lstat(strings.TrimPrefix(in+program, "/")); err == nil {
			return root, in + program, nil
		}
	}
	root.Close()
	return nil, "", fmt.Errorf("the image has no /usr/local/bin/%s and no /usr/bin/%s", program, program)
}

// socketDir makes the empty directory in which user nobody may create the socket.
func socketDir(root *os.Root) error {
	dir := path.Dir(socketName)
	if err := root.RemoveAll(dir); err != nil {
		return err
	}
	const anyone = 0o777
	return errors.Join(root.Mkdir(dir, anyone), root.Chmod(dir, anyone))
}

// awaitSocket waits until the server listens.
func awaitSocket(ctx context.Context, root *os.Root, gone <-chan string) error {
	end := time.After(comeUp)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case why := <-gone:
			return fmt.Errorf("redis-server ended: %s", why)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end:
			return fmt.Errorf("redis-server does not listen after %v", comeUp)
		case <-tick.C:
		}
		if fi, err := root.Lstat(socketName); err == nil && fi.Mode().Type() == fs.ModeSocket && fi.Mode().Perm()&0o007 != 0 {
			return nil
		}
	}
}
