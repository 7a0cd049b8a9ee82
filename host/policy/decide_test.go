package policy

import (
	"fmt"
	"reflect"
	"testing"

	"vfix.dev/vfix/rewriter/find"
)

// The annotations of a container's author make the policy stricter, or the policy permits it.
func TestDecide(t *testing.T) {
	java := []find.Fix{find.Fixes[0]}
	strict := Config{FailClosed: true, Fallback: true, Fix: "java-cgroups"}
	permits := strict
	permits.AllowDisable = true
	for _, c := range []struct {
		config      Config
		annotations string // NAME=VALUE, without the prefix
		want        Decision
		refused     bool
	}{
		{want: Decision{Enabled: true}},
		{annotations: "enable=", want: Decision{Enabled: true}},
		{annotations: "enable=true", want: Decision{Enabled: true}},
		{annotations: "enable=false", want: Decision{OptedOut: true}},
		{annotations: "enable=False", refused: true, want: Decision{Enabled: true}},
		{annotations: "fallback=always", want: Decision{Enabled: true, Fallback: true}},
		{annotations: "fallback=true", refused: true, want: Decision{Enabled: true}},
		{annotations: "fix=java-cgroups", want: Decision{Enabled: true, Fix: java}},
		{annotations: "fix=java", refused: true, want: Decision{Enabled: true}},
		{annotations: "Enable=false", want: Decision{Enabled: true}},
		{annotations: "base.digest=x", want: Decision{Enabled: true}},
		{config: strict, want: Decision{Enabled: true, Fallback: true, Fix: java}},
		{config: strict, annotations: "enable=false", refused: true, want: Decision{Enabled: true, Fallback: true, Fix: java}},
		{config: strict, annotations: "fallback=never", refused: true, want: Decision{Enabled: true, Fallback: true, Fix: java}},
		{config: strict, annotations: "fix=none", refused: true, want: Decision{Enabled: true, Fallback: true, Fix: java}},
		{config: strict, annotations: "fix=java-cgroups", want: Decision{Enabled: true, Fallback: true, Fix: java}},
		{config: Config{FailClosed: true}, annotations: "fix=none", want: Decision{Enabled: true}},
		{config: Config{FailClosed: true}, annotations: "fallback=never", want: Decision{Enabled: true}},
		{config: permits, annotations: "enable=false", want: Decision{OptedOut: true, Fallback: true, Fix: java}},
		{config: permits, annotations: "fallback=never", want: Decision{Enabled: true, Fix: java}},
		{config: permits, annotations: "fix=none", want: Decision{Enabled: true, Fallback: true}},
		{config: Config{OptIn: true}, want: Decision{}},
		{config: Config{OptIn: true}, annotations: "enable=true", want: Decision{Enabled: true}},
		{config: Config{OptIn: true, FailClosed: true}, annotations: "enable=false", want: Decision{OptedOut: true}},
		{config: closed, annotations: "enable=false", refused: true, want: Decision{Enabled: true}},
	} {
		annotations := map[string]string{}
		if c.annotations != "" {
			var name, value string
			for i, r := range c.annotations {
				if r == '=' {
					name, value = c.annotations[:i], c.annotations[i+1:]
					break
				}
			}
			annotations[AnnotationPrefix+name] = value
		}
		got, err := c.config.Decide(annotations)
		if (err != nil) != c.refused || !reflect.DeepEqual(got, c.want) && fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%+v, %s: got %+v, %v, want %+v", c.config, c.annotations, got, err, c.want)
		}
	}
}
