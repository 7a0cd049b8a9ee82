// The images that pods name, from the JSON of kubectl: of pods, of what makes pods (deployments, cron
// jobs), or of lists of them.

package lists

import (
	"encoding/json"
	"errors"
	"io"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/textutil"
)

// object is a Kubernetes object, or a list of such.
type object struct {
	Items []object
	Spec  spec
}

// spec has the containers of a pod, or the template of one (Kubernetes API reference, "PodSpec", "PodTemplateSpec").
type spec struct {
	Containers, InitContainers, EphemeralContainers []struct{ Image string }

	Template, JobTemplate *object // of a deployment, a cron job
}

// eachImage calls f for each image that a container in the JSON has.
func eachImage(r io.Reader, f func(image string) error) error {
	d := json.NewDecoder(textutil.UTF8(r))
	for first := true; ; first = false {
		var o object
		err := d.Decode(&o)
		switch {
		case err == io.EOF && !first:
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = hinterr.Damaged("stdin: incomplete JSON")
		case err != nil:
			err = hinterr.Damaged("stdin: byte %d: invalid JSON, or not of Kubernetes", d.InputOffset())
		}
		if err != nil {
			return hinterr.With(err, "run 'kubectl get pods -A -o json | vfix list -'")
		}
		if err := o.each(f); err != nil {
			return err
		}
	}
}

// each calls f for each image in the object.
func (o *object) each(f func(image string) error) error {
	for _, list := range [][]struct{ Image string }{o.Spec.Containers, o.Spec.InitContainers, o.Spec.EphemeralContainers} {
		for _, c := range list {
			if c.Image == "" {
				continue
			}
			if err := f(c.Image); err != nil {
				return err
			}
		}
	}
	for _, in := range []*object{o.Spec.Template, o.Spec.JobTemplate} {
		if in == nil {
			continue
		}
		if err := in.each(f); err != nil {
			return err
		}
	}
	for i := range o.Items {
		if err := o.Items[i].each(f); err != nil {
			return err
		}
	}
	return nil
}
