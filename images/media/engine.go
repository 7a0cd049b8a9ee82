// What is known of an engine, and requests that go to its API as they are.

package media

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/moby/client"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/hinterr"
)

// EngineClient is a connection to a docker or podman daemon.
type EngineClient struct {
	*client.Client
	Host string
}

// EngineTraits is what is known of an engine; the zero value is docker's as root here.
type EngineTraits struct {
	Name     string // "docker", or "podman"
	Rootless bool   // uid 0 of its containers is the user that runs it
	// ShiftUID and shiftGID are what the IDs of a container are shown as outside, less
	// what they are inside (docker's userns-remap).
	ShiftUID, ShiftGID int
	// Remote is where the engine is, "" for this machine.
	Remote string
}

// Traits asks an engine what it is.
func (c *EngineClient) Traits(ctx context.Context) (EngineTraits, error) {
	t := EngineTraits{Name: "docker"}
	version, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return t, err
	}
	for _, part := range version.Components {
		if strings.HasPrefix(part.Name, "Podman") {
			t.Name = "podman"
		}
	}
	info, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return t, err
	}
	for _, o := range info.Info.SecurityOptions {
		for _, field := range strings.Split(o, ",") {
			t.Rootless = t.Rootless || field == "name=rootless"
			if field == "name=userns" {
				t.ShiftUID, t.ShiftGID = remapped(info.Info.DockerRootDir)
			}
		}
	}
	if u, err := url.Parse(c.Host); err == nil && u.Scheme != "unix" && u.Scheme != "npipe" {
		t.Remote = u.Host
	}
	return t, nil
}

// remapped reads the mapping of userns-remap off the name of the engine's folder, which ends
// in UID.GID of the container's root (moby, daemon/daemon_unix.go, setupDaemonRoot). The
// subordinate IDs of a user are one range in practice.
func remapped(dir string) (uid, gid int) {
	u, g, ok := strings.Cut(filepath.Base(dir), ".")
	uid, err1 := strconv.Atoi(u)
	gid, err2 := strconv.Atoi(g)
	if !ok || err1 != nil || err2 != nil {
		return 0, 0
	}
	return uid, gid
}

// Post sends a JSON body as it is to the engine's API and returns the answer. The client's
// own calls take it apart first and lose what this version of the client does not know.
func (c *EngineClient) Post(ctx context.Context, path string, query url.Values, body []byte) ([]byte, error) {
	dial := c.Dialer()
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives: true,
	}
	u := url.URL{Scheme: "http", Host: "engine", Path: "/v" + c.ClientVersion() + path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without a URL that nobody typed
		}
		return nil, fmt.Errorf("POST %s: %w", path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, blob.MaxConfig))
	if err != nil {
		return nil, fmt.Errorf("POST %s: %w", path, err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var m struct{ Message string }
		if json.Unmarshal(answer, &m) != nil || m.Message == "" {
			m.Message = resp.Status
		}
		return nil, errors.New(m.Message)
	}
	return answer, nil
}

// IsNoDaemon reports whether no docker or podman answered.
func IsNoDaemon(err error) bool { return errors.Is(err, hinterr.ErrNoDaemon) }
