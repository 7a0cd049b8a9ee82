// Which containers get the hook: what the node's owner selects, then the node's policy, then the pod's
// annotation.

package plugin

import (
	"strings"

	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/host/ociruntime"
)

// subject is a container that is about to be created.
type subject struct {
	namespace, pod, container, image, handler string
	labels, annotations                       map[string]string
}

func (s subject) String() string {
	text := s.namespace + "/" + s.pod + "/" + s.container
	if s.image != "" {
		text += " (" + s.image + ")"
	}
	return text
}

// selects reports whether a container is among the selected ones.
func selects(s nri.Selection, c subject) bool {
	text := func(got string) func(string) bool { return func(p string) bool { return matches(p, got) } }
	pair := func(got map[string]string) func(string) bool {
		return func(p string) bool {
			key, want, valued := strings.Cut(p, "=")
			value, ok := got[key]
			return ok && (!valued || matches(want, value))
		}
	}
	return takes(s.Namespaces, text(c.namespace)) && takes(s.Images, text(c.image)) &&
		takes(s.Labels, pair(c.labels)) && takes(s.Annotations, pair(c.annotations))
}

// takes reports whether a list takes what the test is about: no pattern excludes it, and one of the others,
// where there are such, matches.
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

// matches reports whether a text matches a pattern, in which * is any text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for _, p := range parts[1 : len(parts)-1] {
		at := strings.Index(text, p)
		if at < 0 {
			return false
		}
		text = text[at+len(p):]
	}
	return strings.HasSuffix(text, last)
}

// decision is what becomes of a container.
type decision int

const (
	pass      decision = iota // as it is, and not worth a line
	hooked                    // with the hook
	optedOut                  // by its annotation
	virtually                 // in a virtual machine, which no hook reaches
)

// decide applies the selection, the policy and the annotation, in this order. Where the policy forbids to opt
// out, the hook is added, and refuses the container: the policy is read in one place.
func decide(s nri.Selection, policy ociruntime.Config, c subject) decision {
	switch {
	case c.handler == wrapped || !selects(s, c):
		return pass
	case isKata(c.handler):
		return virtually
	}
	switch v := c.annotations[ociruntime.AnnotationEnable]; {
	case v == "" && policy.OptIn:
		return pass
	case v == "false" && !(policy.FailClosed && !policy.AllowDisable):
		return optedOut
	}
	return hooked
}

// wrapped is the runtime handler under which vfix-runtime does the work by itself: 'vfix install'.
const wrapped = "vfix"

// isKata reports whether a runtime handler is one of Kata Containers: kata, kata-qemu, kata-clh, ….
func isKata(handler string) bool { return handler == "kata" || strings.HasPrefix(handler, "kata-") }
