// vfix-runtime as an OCI hook of podman and CRI-O: a file that names it, which these engines look for at
// each start (https://github.com/containers/common/blob/main/pkg/hooks/docs/oci-hooks.5.md).

package install

import (
	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/policy"
)

// hookFile is in the one folder that both engines look into unless they are configured otherwise: podman 5 does
// not look into the one in /etc, and a user's own podman into none.
const hookFile = "usr/share/containers/oci/hooks.d/99-vfix.json"

// HookEngines are those that can have a hook.
var HookEngines = []Engine{Podman, CRIO}

// hooked is an engine that gets the hook, in place of the runtime.
func (e engine) hooked() engine {
	e.config, e.plan, e.cri = hookFile, planHook, false
	return e
}

func planHook(p *planner) {
	type object = map[string]any
	when := object{"always": true}
	if p.OptIn {
		when = object{"annotations": object{`^dev\.vfix\.enable$`: "^true$"}}
	}
	p.members(p.configPath(), []value{
		jsonValue("1.0.0", "version"),
		jsonValue(object{
			"path": p.runtimePath(), "args": []string{runtimeName, ociruntime.HookCommand},
			"timeout": int(policy.Config{}.HookTimeout().Seconds()),
		}, "hook"),
		jsonValue(when, "when"),
		jsonValue([]string{"createRuntime"}, "stages"),
	})
}
