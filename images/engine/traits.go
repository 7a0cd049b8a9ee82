// The facts about an engine.

package engine

import (
	"context"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// Traits is what is known of an engine; the zero value is docker's as root here.
type Traits struct {
	Name     string // "docker", or "podman"
	Rootless bool   // uid 0 of its containers is the user that runs it
	// ShiftUID and shiftGID are what the IDs of a container are shown as outside, less
	// what they are inside (docker's userns-remap).
	ShiftUID, ShiftGID uint32
	// Remote is where the engine is, "" for this machine.
	Remote string
}

// Traits asks an engine what it is.
func (c *Client) Traits(ctx context.Context) (Traits, error) {
	t := Traits{Name: "docker"}
	version, err := c.Version(ctx)
	if err != nil {
		return t, err
	}
	for _, part := range version.Components {
		if strings.HasPrefix(part.Name, "Podman") {
			t.Name = "podman"
		}
	}
	info, err := get[struct {
		SecurityOptions []string
		DockerRootDir   string
	}](ctx, c, "/info", nil)
	if err != nil {
		return t, err
	}
	for _, o := range info.SecurityOptions {
		for _, field := range strings.Split(o, ",") {
			t.Rootless = t.Rootless || field == "name=rootless"
			if field == "name=userns" {
				t.ShiftUID, t.ShiftGID = remapped(info.DockerRootDir)
			}
		}
	}
	if u, err := url.Parse(c.Host); err == nil && u.Scheme != "unix" && u.Scheme != "npipe" {
		t.Remote = u.Host
	}
	return t, nil
}

// remapped reads the mapping of userns-remap off the name of the engine's directory, which ends
// in UID.GID of the container's root (moby, daemon/daemon_unix.go, setupDaemonRoot). The
// subordinate IDs of a user are one range in practice.
func remapped(dir string) (uid, gid uint32) {
	u, g, ok := strings.Cut(filepath.Base(dir), ".")
	user, err1 := strconv.ParseUint(u, 10, 32)
	group, err2 := strconv.ParseUint(g, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, 0
	}
	return uint32(user), uint32(group)
}
