// Which containers get the hook: those that the node's owner selects.

package nri

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"vfix.dev/vfix/internal/textutil"
)

// subject is a container that is about to be created.
type subject struct {
	namespace, pod, container, handler string
	images                             []string // names of its image, the best known first
	labels, annotations                map[string]string
}

// imageNames are annotations with names of a container's image, of engines that do not report it otherwise (NRI 0.12
// and later has it). Those of another engine come from the pod, and may say anything.
//
// CRI-O's ImageName is one of the image's names, with a tag if there is one, and "" if it has no name; Image
// is the one that the kubelet requested: a name with a digest, or an ID (cri-o, pkg/annotations/internal.go).
var imageNames = map[string][]string{
	"containerd": {"io.kubernetes.cri.image-name"},
	crio:         {"io.kubernetes.cri-o.ImageName", "io.kubernetes.cri-o.Image"},
}

// crio is CRI-O's name for itself.
const crio = "cri-o"

// subjectOf extracts the relevant parts of an engine's request. The container's own annotations precede the pod's.
func subjectOf(engine string, pod *api.PodSandbox, c *api.Container) subject {
	s := subject{
		namespace: pod.GetNamespace(), pod: pod.GetName(), container: c.GetName(), handler: pod.GetRuntimeHandler(),
		labels: pod.GetLabels(), annotations: map[string]string{},
	}
	for _, all := range []map[string]string{pod.GetAnnotations(), c.GetAnnotations()} {
		maps.Copy(s.annotations, all)
	}
	names := []string{c.GetImage().GetName()}
	if engine == crio {
		// It takes the container's name from an annotation that it does not set (seen with 1.36).
		var metadata struct{ Name string }
		if json.Unmarshal([]byte(c.GetAnnotations()["io.kubernetes.cri-o.Metadata"]), &metadata) == nil {
			s.container = cmp.Or(s.container, metadata.Name)
		}
	}
	for _, annotation := range imageNames[engine] {
		names = append(names, c.GetAnnotations()[annotation])
	}
	for _, name := range names {
		if name != "" && !slices.Contains(s.images, name) {
			s.images = append(s.images, name)
		}
	}
	return s
}

// image is the name of its image for people, "" for one without.
func (s subject) image() string {
	if len(s.images) == 0 {
		return ""
	}
	return s.images[0]
}

func (s subject) String() string {
	text := s.namespace + "/" + s.pod + "/" + s.container
	if image := s.image(); image != "" {
		text += " (" + image + ")"
	}
	return text
}

// selects reports whether a container is among the selected ones.
func selects(s Selection, c subject) bool {
	namespace := func(p string) bool { return textutil.Pattern(p).MatchString(c.namespace) }
	image := func(p string) bool { return slices.ContainsFunc(c.images, textutil.ImagePattern(p).MatchString) }
	pair := func(got map[string]string) func(string) bool {
		return func(p string) bool {
			key, want, valued := strings.Cut(p, "=")
			value, ok := got[key]
			return ok && (!valued || textutil.Pattern(want).MatchString(value))
		}
	}
	return takes(s.Namespaces, namespace) && takes(s.Images, image) &&
		takes(s.Labels, pair(c.labels)) && takes(s.Annotations, pair(c.annotations))
}

// takes reports whether a list selects the subject of the test: no pattern excludes it, and one of the
// others, if any, matches.
func takes(list []string, test func(pattern string) bool) bool {
	wanted, matched := false, false
	for _, p := range list {
		if not, ok := strings.CutPrefix(p, "!"); ok {
			if test(not) {
				return false
			}
			continue
		}
		wanted = true
		matched = matched || test(p)
	}
	return matched || !wanted
}

// isKata reports whether a runtime handler is one of Kata Containers: kata, kata-qemu, kata-clh, ….
func isKata(handler string) bool { return handler == "kata" || strings.HasPrefix(handler, "kata-") }
