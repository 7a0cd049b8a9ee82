// The images that pods name, from the JSON of kubectl: of pods, of what makes pods (deployments, cron
// jobs), or of lists of them.

package lists

import (
	"encoding/json"
	"io"
	"slices"

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
		if err == io.EOF && !first {
			return nil
		}
		if err != nil {
			return hinterr.With(hinterr.Damaged("stdin: byte %d: invalid or incomplete JSON, or not of Kubernetes", d.InputOffset()),
				"run 'kubectl get pods -A -o json | vfix list -'")
		}
		for _, image := range o.images() {
			if err := f(image); err != nil {
				return err
			}
		}
	}
}

// images are the images in the object.
func (o *object) images() (all []string) {
	for _, c := range slices.Concat(o.Spec.Containers, o.Spec.InitContainers, o.Spec.EphemeralContainers) {
		if c.Image != "" {
			all = append(all, c.Image)
		}
	}
	for _, in := range []*object{o.Spec.Template, o.Spec.JobTemplate} {
		if in != nil {
			all = append(all, in.images()...)
		}
	}
	for i := range o.Items {
		all = append(all, o.Items[i].images()...)
	}
	return all
}
