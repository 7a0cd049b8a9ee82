// The hook that podman and CRI-O read: a file of its own.

package install

// hookPath is in the only directory that podman and CRI-O both search unless they are configured otherwise
// (https://github.com/containers/common/blob/main/pkg/hooks/docs/oci-hooks.5.md). Rootless podman searches it as well.
const hookPath = "/usr/share/containers/oci/hooks.d/99-vfix.json"

// hook makes vfix-runtime an OCI hook of all containers. Unlike a runtime, no container remembers a hook, so that nothing
// is missing after uninstall. The timeout, in seconds, is longer than vfix-runtime works before it lets a container start
// unpatched.
const hook = `{
  "version": "1.0.0",
  "hook": {
    "path": "` + RuntimePath + `",
    "args": ["` + RuntimeName + `", "hook"],
    "timeout": 30
  },
  "when": {"always": true},
  "stages": ["createRuntime"]
}
`

func planHook(_ tree, _ engine, use usage) (file, error) {
	if use == unused {
		return file{path: hookPath}, nil
	}
	return file{path: hookPath, data: []byte(hook)}, nil
}
