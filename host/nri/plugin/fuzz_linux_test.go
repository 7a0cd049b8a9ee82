package plugin

import (
	"testing"

	"github.com/containerd/nri/pkg/api"

	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/host/policy"
)

// FuzzMessage: for any report of an engine about a container, an excluded namespace gets no hook, and an
// annotation that requests it gets one.
func FuzzMessage(f *testing.F) {
	for _, r := range []*api.CreateContainerRequest{
		{}, {Pod: &api.PodSandbox{Namespace: "a", Name: "b", RuntimeHandler: "kata-qemu", Annotations: map[string]string{policy.AnnotationEnable: "false"}}},
		{Pod: &api.PodSandbox{Labels: map[string]string{"a": "b"}}, Container: &api.Container{Name: "c", Annotations: map[string]string{
			policy.AnnotationEnable: "true", "io.kubernetes.cri-o.Metadata": `{"name":"x"}`, "io.kubernetes.cri.image-name": "docker.io/x:1"}}},
	} {
		raw, err := r.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r api.CreateContainerRequest
		if r.UnmarshalVT(raw) != nil {
			return
		}
		for engine := range imageNames {
			s := subjectOf(engine, r.Pod, r.Container)
			_ = s.String()
			_ = patched(Options{}, s, r.Container)
			if decide(nri.Selection{Namespaces: []string{"!" + s.namespace}}, policy.Config{}, s) != pass && s.handler != wrapped {
				t.Errorf("%v: hooked in a namespace that is left out", s)
			}
			want := s.handler != wrapped && !isKata(s.handler) && s.annotations[policy.AnnotationEnable] == "true"
			if got := decide(nri.Selection{}, policy.Config{OptIn: true}, s) == hooked; want && !got {
				t.Errorf("%v: got no hook", s)
			}
		}
	})
}
