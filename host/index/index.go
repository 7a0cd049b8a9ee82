// Package index finds the layers of an image that an engine has, by the engine's own command line: so that they are
// examined before the first container starts from them.
package index

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"vfix.dev/vfix/host/ociruntime"
)

// engine is how an engine is queried.
type engine struct {
	name   string
	layers func(ctx context.Context, image string) ([]string, error)
	events []string // a command that prints a line for each present image
	image  func(line string) string
}

var engines = []engine{
	{
		"docker", func(ctx context.Context, image string) ([]string, error) { return inspect(ctx, "docker", image) },
		[]string{"docker", "events", "--filter", "type=image", "--filter", "event=pull", "--filter", "event=load", "--format", "{{.Actor.ID}}"}, strings.TrimSpace,
	},
	{
		"podman", func(ctx context.Context, image string) ([]string, error) { return inspect(ctx, "podman", image) },
		[]string{"podman", "events", "--filter", "type=image", "--filter", "event=pull", "--filter", "event=loadfromarchive", "--format", "{{.ID}}"}, strings.TrimSpace,
	},
	{"containerd", snapshot, ctr("events"), created},
}

// Engines are their names.
func Engines() (names []string) {
	for _, e := range engines {
		names = append(names, e.name)
	}
	return names
}

// ErrNoEngine: no engine has the image.
var ErrNoEngine = errors.New("no engine has it")

// Layers are the directories of an image's layers, the uppermost first. only names the engine, "" for the first that
// has the image.
func Layers(ctx context.Context, only, image string) ([]string, error) {
	var all []error
	for _, e := range engines {
		if only != "" && only != e.name {
			continue
		}
		layers, err := e.layers(ctx, image)
		if err == nil {
			return layers, nil
		}
		if only != "" || !errors.Is(err, exec.ErrNotFound) {
			all = append(all, fmt.Errorf("%s: %w", e.name, err))
		}
	}
	if only == "" {
		all = append([]error{ErrNoEngine}, all...)
	}
	return nil, errors.Join(all...)
}

// Watch calls found for each image that an engine gets, until the context ends. only is that of Layers.
func Watch(ctx context.Context, only string, found func(engine, image string), say func(format string, args ...any)) error {
	watched := 0
	done := make(chan struct{})
	for _, e := range engines {
		if only != "" && only != e.name {
			continue
		}
		if _, err := exec.LookPath(e.events[0]); err != nil {
			if only != "" {
				return err
			}
			continue
		}
		watched++
		go func() {
			e.watch(ctx, func(image string) { found(e.name, image) }, say)
			done <- struct{}{}
		}()
	}
	if watched == 0 {
		return fmt.Errorf("none of %s is in PATH", strings.Join(Engines(), ", "))
	}
	for range watched {
		<-done
	}
	return nil
}

// again is how long to wait before an engine that does not answer is queried again.
var again = 5 * time.Second

func (e *engine) watch(ctx context.Context, found func(image string), say func(format string, args ...any)) {
	said := ""
	for ctx.Err() == nil {
		err := follow(ctx, e.events, func(line string) {
			if image := e.image(line); image != "" {
				found(image)
			}
		})
		if text := fmt.Sprint(err); ctx.Err() == nil && text != said {
			said = text
			say("%s: %v; retrying until it answers", e.name, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// follow passes on the output of a command, line by line.
func follow(ctx context.Context, command []string, line func(string)) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line(lines.Text())
	}
	return complained(errors.Join(cmd.Wait(), lines.Err()), complaint.Bytes())
}

func output(ctx context.Context, command ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	return out, complained(err, complaint.Bytes())
}

// complained is an error with the last line that a command wrote about it.
func complained(err error, text []byte) error {
	text = bytes.TrimSpace(text)
	if err == nil || len(text) == 0 {
		return err
	}
	return fmt.Errorf("%w: %q", err, text[bytes.LastIndexByte(text, '\n')+1:])
}

// inspect asks docker or podman, whose answers are alike: a storage driver's directories.
func inspect(ctx context.Context, command, image string) ([]string, error) {
	out, err := output(ctx, command, "image", "inspect", "--format", "{{json .GraphDriver}}", "--", image)
	if err != nil {
		return nil, err
	}
	var driver struct {
		Name string
		Data struct{ UpperDir, LowerDir string }
	}
	if err := json.Unmarshal(out, &driver); err != nil {
		return nil, err
	}
	if driver.Data.UpperDir == "" {
		return nil, fmt.Errorf("its storage driver (%q) does not name the layers", driver.Name)
	}
	layers := []string{driver.Data.UpperDir}
	if driver.Data.LowerDir != "" {
		layers = append(layers, strings.Split(driver.Data.LowerDir, ":")...)
	}
	return layers, nil
}

// ctr is a command line of containerd's tool, in the namespace of Kubernetes unless its variable names another.
func ctr(args ...string) []string {
	if os.Getenv("CONTAINERD_NAMESPACE") == "" {
		args = append([]string{"--namespace", "k8s.io"}, args...)
	}
	return append([]string{"ctr"}, args...)
}

// snapshot lets containerd mount a read-only snapshot of the image, and reads the list of its layers.
func snapshot(ctx context.Context, image string) (layers []string, err error) {
	dir, err := os.MkdirTemp("", "vfix-index-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	if _, err := output(ctx, ctr("images", "mount", "--rw", image, dir)...); err != nil {
		return nil, err
	}
	defer func() {
		_, uerr := output(context.WithoutCancel(ctx), ctr("images", "unmount", "--rm", dir)...)
		err = errors.Join(err, uerr)
	}()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return ociruntime.Layers(text, dir)
}

// created reads a line of 'ctr events': the time, the namespace, the topic, and JSON.
func created(line string) string {
	head, text, ok := strings.Cut(line, "{")
	if fields := strings.Fields(head); !ok || len(fields) == 0 || fields[len(fields)-1] != "/images/create" {
		return ""
	}
	var event struct{ Name string }
	if json.Unmarshal([]byte("{"+text), &event) != nil || strings.HasPrefix(event.Name, "sha256:") {
		return "" // another name of an image that has one
	}
	return event.Name
}
