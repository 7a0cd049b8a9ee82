// The calls of docker's API that vfix makes (docker.com, "Engine API"), with those members of the answers that it
// reads.

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Image is an image, looked up by name or ID.
type Image struct {
	ID          string `json:"Id"`
	RepoDigests []string
	Size        int64
	RootFS      struct{ Layers []string }
}

// Image looks an image up.
func (c *Client) Image(ctx context.Context, name string) (Image, error) {
	return get[Image](ctx, c, "/images/"+name+"/json", nil)
}

// ListedImage is an image in the list.
type ListedImage struct {
	ID       string `json:"Id"`
	RepoTags []string
	Created  int64 // seconds since 1970
}

// Images lists the images.
func (c *Client) Images(ctx context.Context) ([]ListedImage, error) {
	return get[[]ListedImage](ctx, c, "/images/json", nil)
}

// Platform is one of those that an image may be for.
type Platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

// savePlatformAPI is the first API version whose save takes a platform (docker 28.0, API version history).
const savePlatformAPI = "1.48"

// Save streams an image as a docker archive, of a platform where the daemon knows of several.
func (c *Client) Save(ctx context.Context, id string, p Platform) (io.ReadCloser, error) {
	query := url.Values{"names": {id}}
	if c.Since(savePlatformAPI) {
		text, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		query.Set("platform", string(text))
	}
	return c.stream(ctx, "/images/get", query)
}

// Load makes the daemon load a docker archive. The answer is a stream of messages, which also reports a failed
// load.
func (c *Client) Load(ctx context.Context, archive io.Reader) (io.ReadCloser, error) {
	resp, err := c.do(ctx, http.MethodPost, "/images/load", url.Values{"quiet": {"1"}}, archive, "application/x-tar")
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Container is a container, looked up by name or ID.
type Container struct {
	ID    string `json:"Id"`
	Name  string // with a slash in front
	Image string // ID
	Path  string // what it started
	Args  []string
	State *struct {
		Running, Paused, Restarting, OOMKilled bool
		Pid, ExitCode                          int
		Error, FinishedAt                      string
	}
	Config *struct {
		Image  string // as its owner named it
		Env    []string
		Labels map[string]string
	}
	HostConfig *struct {
		Memory     int64 // bytes
		AutoRemove bool
		UsernsMode string
		// ReadonlyRootfs says that the container cannot write to its own layer.
		ReadonlyRootfs bool
		Tmpfs          map[string]string
	}
	Mounts []Mount
	Raw    json.RawMessage `json:"-"` // the whole answer
}

// Mount is something mounted into a container.
type Mount struct{ Type, Source, Destination string }

// Bind is the type of a mount of a file or directory.
const Bind = "bind"

// Busy says that a container has processes or is about to have some again.
func (c *Container) Busy() bool {
	return c.State != nil && (c.State.Running || c.State.Paused || c.State.Restarting)
}

// Container looks a container up.
func (c *Client) Container(ctx context.Context, name string) (*Container, error) {
	raw, err := get[json.RawMessage](ctx, c, "/containers/"+name+"/json", nil)
	if err != nil {
		return nil, err
	}
	found := &Container{Raw: raw}
	if err := json.Unmarshal(raw, found); err != nil {
		return nil, fmt.Errorf("the engine's answer about container %s: %w", name, err)
	}
	return found, nil
}

// ListedContainer is a container in the list.
type ListedContainer struct {
	ID             string `json:"Id"`
	Names          []string
	Image, ImageID string
	State          string // "created", "running", …
	Mounts         []Mount
}

// Containers lists the running containers, or all.
func (c *Client) Containers(ctx context.Context, all bool) ([]ListedContainer, error) {
	query := url.Values{}
	if all {
		query.Set("all", "1")
	}
	return get[[]ListedContainer](ctx, c, "/containers/json", query)
}

// Export streams a container's file system as a tar archive.
func (c *Client) Export(ctx context.Context, id string) (io.ReadCloser, error) {
	return c.stream(ctx, "/containers/"+id+"/export", nil)
}

// Changed counts the files and directories that a container changed in its own layer.
func (c *Client) Changed(ctx context.Context, id string) (int, error) {
	all, err := get[[]struct{}](ctx, c, "/containers/"+id+"/changes", nil)
	return len(all), err
}

// Commit makes an image, REPO:TAG with the registry in REPO, of a container, which is not paused for it.
func (c *Client) Commit(ctx context.Context, id, repo, tag, comment string) error {
	_, err := c.raw(ctx, http.MethodPost, "/commit", url.Values{
		"container": {id}, "repo": {repo}, "tag": {tag}, "comment": {comment}, "pause": {"0"},
	}, nil)
	return err
}

// Remove removes "containers/ID" that is not running, or "images/NAME": that name, and the image with its last one.
func (c *Client) Remove(ctx context.Context, what string) error {
	_, err := c.raw(ctx, http.MethodDelete, "/"+what, nil, nil)
	return err
}

// Rename gives a container another name.
func (c *Client) Rename(ctx context.Context, id, name string) error {
	_, err := c.raw(ctx, http.MethodPost, "/containers/"+id+"/rename", url.Values{"name": {name}}, nil)
	return err
}

// PutArchive unpacks a tar archive in a directory of a container, running or not. Owners are those of the archive; a
// directory is not replaced by a file, or a file by a directory.
func (c *Client) PutArchive(ctx context.Context, id, dir string, archive io.Reader) error {
	query := url.Values{"path": {dir}, "noOverwriteDirNonDir": {"1"}}
	resp, err := c.do(ctx, http.MethodPut, "/containers/"+id+"/archive", query, archive, "application/x-tar")
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Start starts a container. One that runs stays as it is.
func (c *Client) Start(ctx context.Context, id string) error {
	_, err := c.raw(ctx, http.MethodPost, "/containers/"+id+"/start", nil, nil)
	return err
}

// Version describes a daemon.
type Version struct {
	Version       string
	KernelVersion string // that its containers run on
	Components    []struct{ Name string }
}

// Version asks for the daemon's version.
func (c *Client) Version(ctx context.Context) (Version, error) {
	return get[Version](ctx, c, "/version", nil)
}
