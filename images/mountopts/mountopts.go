// Package mountopts writes bind mounts of single files in the forms that container engines
// accept: options of docker and podman for a shell, YAML for compose and Kubernetes.
//
// Paths may hold any character but NUL. Each of these formats has a quoting of its own, and
// a shell's around it; Unsayable reports what one of them cannot say.
package mountopts

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"vfix.dev/vfix/internal/quote"
)

// Mount is one read-only bind mount of a file.
type Mount struct {
	Source string `json:"source"` // absolute path on the host
	Target string `json:"target"` // absolute path in the container
	Size   int64  `json:"size"`   // bytes
}

// Engine names a format.
type Engine string

// The formats.
const (
	Docker     Engine = "docker"
	Podman     Engine = "podman"
	Compose    Engine = "compose"
	Kubernetes Engine = "kubernetes"
)

// Engines lists all formats in the order in which they are printed.
var Engines = []Engine{Docker, Podman, Compose, Kubernetes}

// Unsayable says why an engine cannot get a mount, "" if it can.
//
// All four hand paths on as JSON (the engine's API, config.json, the pod), which has no
// bytes that are not UTF-8. podman splits --mount at commas (until 4.4 without looking at
// quotes) and --volume at colons. A mountPath "must not contain ':'" (Kubernetes API
// reference, VolumeMount).
func Unsayable(e Engine, m Mount) string {
	both := m.Source + m.Target
	switch {
	case !utf8.ValidString(both):
		return "the name is not UTF-8"
	case e == Podman && m.quoted() && strings.Contains(both, ":"):
		return "podman takes no name with a colon and a comma, a quote or a line's end"
	case e == Kubernetes && strings.Contains(m.Target, ":"):
		return "Kubernetes takes no mountPath with a colon"
	}
	return ""
}

// Say writes the mounts for an engine, without those for which Unsayable has a reason. image
// is the image to run, name what the service or the container is called.
func Say(e Engine, image, name string, mounts []Mount) string {
	fit := slices.DeleteFunc(slices.Clone(mounts), func(m Mount) bool { return Unsayable(e, m) != "" })
	switch e {
	case Docker:
		return command("docker", image, fit, dockerOption)
	case Podman:
		return command("podman", image, fit, podmanOption)
	case Compose:
		return compose(name, fit)
	case Kubernetes:
		return kubernetes(name, fit)
	}
	return ""
}

func command(program, image string, mounts []Mount, option func(Mount) string) string {
	var b strings.Builder
	b.WriteString(program + " run \\\n")
	for _, m := range mounts {
		b.WriteString("  " + option(m) + " \\\n")
	}
	b.WriteString("  " + quote.Shell(image) + "\n")
	return b.String()
}

// dockerOption is --mount: its value is one line of CSV (docker/cli, opts/mount.go).
func dockerOption(m Mount) string {
	return "--mount " + quote.Shell(m.csv())
}

// csv is the value of --mount.
func (m Mount) csv() string {
	return csvLine("type=bind", "source="+m.Source, "target="+m.Target, "readonly")
}

// quoted says that the value of --mount has quotes in it.
func (m Mount) quoted() bool { return strings.Contains(m.csv(), `"`) }

// podmanOption is also --mount, except for names that podman would split.
func podmanOption(m Mount) string {
	if m.quoted() {
		return "--volume " + quote.Shell(m.Source+":"+m.Target+":ro")
	}
	return dockerOption(m)
}

// csvLine writes fields as in RFC 4180, without the line's end.
func csvLine(fields ...string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(fields) // a strings.Builder does not err
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// compose is a file to be merged into the one that there is: `docker compose -f FILE -f
// THIS` (compose-spec, "volumes", long syntax). A dollar sign is doubled there.
func compose(service string, mounts []Mount) string {
	dollars := func(s string) string { return quote.YAML(strings.ReplaceAll(s, "$", "$$")) }
	var b strings.Builder
	fmt.Fprintf(&b, "services:\n  %s:\n    volumes:\n", quote.YAML(service))
	for _, m := range mounts {
		fmt.Fprintf(&b, "      - type: bind\n        source: %s\n        target: %s\n        read_only: true\n",
			dollars(m.Source), dollars(m.Target))
		b.WriteString("        bind:\n          create_host_path: false\n")
	}
	return b.String()
}

// kubernetes is part of a pod's specification (Kubernetes API reference, Pod). A volume for
// each file, as its type has the kubelet refuse to start where a node lacks the file; a
// subPath would make a directory there.
func kubernetes(container string, mounts []Mount) string {
	var b strings.Builder
	fmt.Fprintf(&b, "spec:\n  containers:\n    - name: %s\n      volumeMounts:\n", quote.YAML(container))
	number := map[string]int{}
	var sources []string
	for _, m := range mounts {
		if _, ok := number[m.Source]; !ok {
			number[m.Source] = len(number) + 1
			sources = append(sources, m.Source)
		}
		fmt.Fprintf(&b, "        - name: vfix-%d\n          mountPath: %s\n          readOnly: true\n", number[m.Source], quote.YAML(m.Target))
	}
	b.WriteString("  volumes:\n")
	for _, s := range sources {
		fmt.Fprintf(&b, "    - name: vfix-%d\n      hostPath:\n        path: %s\n        type: File\n", number[s], quote.YAML(s))
	}
	return b.String()
}
