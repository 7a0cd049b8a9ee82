// The images that pods name, from the JSON of kubectl: of pods, of what makes pods (deployments, cron
// jobs), or of lists of them.

package lists

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/textutil"
)

// containerLists are the members of a PodSpec with containers (Kubernetes API reference, "PodSpec").
var containerLists = map[string]bool{"containers": true, "initContainers": true, "ephemeralContainers": true}

// maxDepth is how deep JSON may be; a pod's is about twenty.
const maxDepth = 200

// eachImage calls f for each image that a container in the JSON has. It reads the JSON as a stream: that
// of a cluster has hundreds of MB.
func eachImage(r io.Reader, f func(image string) error) error {
	d := &pods{json.NewDecoder(textutil.UTF8(r)), f}
	for first := true; ; first = false {
		err := d.value("", false, 0)
		switch {
		case err == io.EOF && !first:
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return hinterr.With(hinterr.Damaged("stdin: incomplete JSON"), "run 'kubectl get pods -A -o json | vfix list -'")
		case err != nil:
			var syntax *json.SyntaxError
			var other *json.UnmarshalTypeError
			at := d.InputOffset()
			switch {
			case errors.As(err, &syntax):
				at = syntax.Offset
			case !errors.As(err, &other):
				return err
			}
			return hinterr.With(hinterr.Damaged("stdin: byte %d: %v", at, jsonobject.InWords(err)), "run 'kubectl get pods -A -o json | vfix list -'")
		}
	}
}

type pods struct {
	*json.Decoder
	each func(string) error
}

// value reads one value, the member key of an object; container says that it is a container.
func (p *pods) value(key string, container bool, depth int) error {
	if depth > maxDepth {
		return hinterr.Damaged("stdin: JSON with more than %d levels", maxDepth)
	}
	t, err := p.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('['):
		for p.More() {
			if err := p.value("", containerLists[key], depth+1); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		for p.More() {
			if err := p.member(container, depth); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = p.Token() // the end of it
	return err
}

func (p *pods) member(container bool, depth int) error {
	key, err := p.Token()
	if err != nil {
		return err
	}
	if !container || key != "image" {
		return p.value(fmt.Sprint(key), false, depth+1)
	}
	var image string
	if err := p.Decode(&image); err != nil {
		return err
	}
	if image == "" {
		return nil
	}
	return p.each(image)
}
