// Starting redis-server in a root filesystem, and running redis-benchmark against it.

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"vfix.dev/vfix/host/jail"
)

const (
	socketName  = "vfix-bench/redis.sock" // in the root filesystem
	redisSocket = "/" + socketName
	// comeUp is how long a server may take until its socket exists.
	comeUp = time.Minute
	// ended is how long it may take to end.
	ended = 10 * time.Second
)

// Where redis images and Debian have the programs.
var (
	redisServers    = []string{"/usr/local/bin/redis-server", "/usr/bin/redis-server"}
	redisBenchmarks = []string{"/usr/local/bin/redis-benchmark", "/usr/bin/redis-benchmark"}
)

// round starts the server of a side, runs the benchmark against it, and ends it.
func (s *redisSide) round(ctx context.Context, o RedisOptions) (err error) {
	own, server, err := rootWith(s.root, redisServers)
	if err != nil {
		return err
	}
	defer own.Close()
	rebuilt, benchmark, err := rootWith(o.Rebuilt, redisBenchmarks)
	if err != nil {
		return err
	}
	defer rebuilt.Close()
	if err := errors.Join(socketDir(own), socketDir(rebuilt)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := jail.Command(ctx, s.root, server, "--port", "0", "--unixsocket", redisSocket, "--unixsocketperm", "777",
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", "/vfix-bench")
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	said := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	cmd.WaitDelay = ended
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", server, err)
	}
	gone := make(chan struct{})
	var how error // once gone is closed, as said is then
	go func() {
		how = cmd.Wait()
		close(gone)
	}()
	defer func() {
		cancel()
		<-gone
	}()
	if err := awaitSocket(ctx, own, gone); errors.Is(err, errGone) {
		return fmt.Errorf("%w: %s %s", err, died(how), lastLine(said.String()))
	} else if err != nil {
		return err
	}
	// The benchmark's root differs from that of the original server: the socket gets a hard link there. Both
	// directories were made by socketDir, so their paths have no symlinks.
	if s.root != o.Rebuilt {
		if err := os.Link(s.root+redisSocket, o.Rebuilt+redisSocket); err != nil {
			return err
		}
	}
	run := jail.Command(ctx, o.Rebuilt, benchmark, "-s", redisSocket, "-t", strings.ToLower(strings.Join(redisTests, ",")),
		"-n", strconv.Itoa(o.Requests), "-P", strconv.Itoa(o.Pipeline))
	run.Env = cmd.Env
	errout := &bytes.Buffer{}
	run.Stderr = errout
	out, err := run.Output()
	if err != nil {
		return fmt.Errorf("%s: %s %s", benchmark, died(err), strings.TrimSpace(errout.String()))
	}
	runs, err := parseRedis(out)
	if err == nil {
		s.runs = append(s.runs, runs)
	}
	return err
}

// rootWith opens a root filesystem that has a program at one of the usual places.
func rootWith(dir string, usual []string) (root *os.Root, name string, err error) {
	if root, err = os.OpenRoot(dir); err != nil {
		return nil, "", err
	}
	for _, name := range usual {
		if _, err := root.Lstat(strings.TrimPrefix(name, "/")); err == nil {
			return root, name, nil
		}
	}
	root.Close()
	return nil, "", fmt.Errorf("the image has no %s", strings.Join(usual, " and no "))
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

var errGone = errors.New("redis-server ended")

// awaitSocket waits until the server listens, or errors: errGone if it has ended.
func awaitSocket(ctx context.Context, root *os.Root, gone <-chan struct{}) error {
	end := time.Now().Add(comeUp)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-gone:
			return errGone
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if fi, err := root.Lstat(socketName); err == nil && fi.Mode().Type() == fs.ModeSocket && fi.Mode().Perm()&0o007 != 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("redis-server does not listen after %v", comeUp)
		}
	}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
