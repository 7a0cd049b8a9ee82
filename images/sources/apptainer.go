// The files of Apptainer and Singularity in the root filesystem of an image: scripts in /.singularity.d that set
// its environment and run its command. They are made from the image's config and behave like those of apptainer
// build (internal/pkg/build/sources/conveyorPacker_oci.go and base_environment.go of Apptainer 1.4), which ignore
// the user and the working directory of the config.

package sources

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/lazy"
)

// Paths in the root filesystem.
const (
	apptainerDir    = ".singularity.d"
	sifRunscript    = apptainerDir + "/runscript" // what apptainer run starts
	sifStartscript  = apptainerDir + "/startscript"
	sifLabels       = apptainerDir + "/labels.json"
	sifDefinition   = apptainerDir + "/Singularity"
	sifImageEnv     = apptainerDir + "/env/10-docker2singularity.sh"
	sifUserEnv      = apptainerDir + "/env/90-environment.sh"
	sifBaseEnv      = apptainerDir + "/env/99-base.sh"
	sifRuntimeEnv   = apptainerDir + "/env/99-runtimevars.sh"
	sifDefaultShell = "#!/bin/sh\n"
)

// apptainerDirs are the directories that are created if they are missing, including mount points.
var apptainerDirs = []string{
	apptainerDir, apptainerDir + "/actions", apptainerDir + "/env", apptainerDir + "/libs",
	"dev", "etc", "home", "proc", "root", "sys", "tmp", "var", "var/tmp",
}

// apptainerLinks are symlinks of the root directory, by name.
var apptainerLinks = map[string]string{
	".exec": apptainerDir + "/actions/exec", ".run": apptainerDir + "/actions/run", ".shell": apptainerDir + "/actions/shell",
	".test": apptainerDir + "/actions/test", "environment": sifUserEnv, "singularity": sifRunscript,
}

// loadEnvironment is the start of the action scripts. Apptainer has its own scripts; Singularity before 3.6
// executes those in the image.
const loadEnvironment = sifDefaultShell + `for script in /.singularity.d/env/*.sh; do
	[ ! -f "$script" ] || . "$script"
done
`

// apptainerScripts are the scripts that are equal in all images.
var apptainerScripts = map[string]string{
	apptainerDir + "/actions/exec": loadEnvironment + `exec "$@"` + "\n",
	apptainerDir + "/actions/run":  loadEnvironment + `exec /.singularity.d/runscript "$@"` + "\n",
	apptainerDir + "/actions/shell": loadEnvironment + `[ ! -x "$SINGULARITY_SHELL" ] || exec "$SINGULARITY_SHELL" "$@"
[ ! -x /bin/bash ] || exec /bin/bash --norc "$@"
exec /bin/sh "$@"
`,
	// The instance's first process waits for the signal.
	apptainerDir + "/actions/start": sifDefaultShell + "kill -CONT 1\n" + strings.TrimPrefix(loadEnvironment, sifDefaultShell) +
		"exec /.singularity.d/startscript \"$@\"\n",
	apptainerDir + "/actions/test": loadEnvironment + `[ ! -x /.singularity.d/test ] || exec /.singularity.d/test "$@"` + "\n",
	sifStartscript:                 sifDefaultShell,
	sifUserEnv:                     sifDefaultShell,
	// Apptainer's action script sets variables of the command line after the script with this name.
	sifBaseEnv: sifDefaultShell + `export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/.singularity.d/libs"
export PS1="${PS1:-Apptainer> }"
`,
	sifRuntimeEnv: sifDefaultShell + `PATH=${SING_USER_DEFINED_PREPEND_PATH:+$SING_USER_DEFINED_PREPEND_PATH:}$PATH
PATH=$PATH${SING_USER_DEFINED_APPEND_PATH:+:$SING_USER_DEFINED_APPEND_PATH}
export PATH="${SING_USER_DEFINED_PATH:-$PATH}"
unset SING_USER_DEFINED_PREPEND_PATH SING_USER_DEFINED_APPEND_PATH SING_USER_DEFINED_PATH
`,
}

// shellQuoted quotes one word for a shell. The shell in Apptainer 1.4 reads \' outside of quotes as two
// characters.
func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'" }

// evaluated quotes words for a shell's eval, which then yields the words of the config.
func evaluated(words []string) string {
	var all []string
	for _, w := range words {
		all = append(all, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`).Replace(w)+`"`)
	}
	return strings.Join(all, " ")
}

// runscript runs the config's entrypoint and command. Arguments replace the command; unless
// APPTAINER_NO_EVAL is set, the shell evaluates them, as in each image that Apptainer builds.
func runscript(c v1.Config) string {
	set := func(words []string) string {
		line := "set --"
		for _, w := range words {
			line += " " + shellQuoted(w)
		}
		return line + ` "$@"`
	}
	return sifDefaultShell + fmt.Sprintf(`OCI_ENTRYPOINT=%s
OCI_CMD=%s
if [ -n "$SINGULARITY_NO_EVAL" ]; then
	[ $# -gt 0 ] || %s
	%s
	exec "$@"
fi
CMDLINE_ARGS=$OCI_CMD
if [ $# -gt 0 ]; then
	CMDLINE_ARGS=
	for arg in "$@"; do CMDLINE_ARGS="$CMDLINE_ARGS \"$arg\""; done
fi
eval "set -- $OCI_ENTRYPOINT $CMDLINE_ARGS"
exec "$@"
`, shellQuoted(evaluated(c.Entrypoint)), shellQuoted(evaluated(c.Cmd)), set(c.Cmd), set(c.Entrypoint))
}

var shellName = lazy.Regexp(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// imageEnv sets the config's environment: PATH in any case, other variables if the caller has not set them. It
// omits names that no shell can set.
func imageEnv(c v1.Config) string {
	var b strings.Builder
	b.WriteString(sifDefaultShell)
	for _, v := range c.Env {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case !shellName().MatchString(name):
		case name == "PATH":
			fmt.Fprintf(&b, "export PATH=%s\n", shellQuoted(value))
		default:
			fmt.Fprintf(&b, "[ -n \"${%s:-}\" ] || %s=%s\nexport %s\n", name, name, shellQuoted(value), name)
		}
	}
	return b.String()
}

// apptainerFiles are the files added to the root filesystem of an image, and the metadata for apptainer inspect.
type apptainerFiles struct {
	extras   []contents.Extra
	metadata []byte // nil: apptainer reads it from the files
}

// newApptainerFiles returns the files for a merged file system, with the times of like. It keeps those of an image
// that Apptainer made: its runscript is the entrypoint.
func newApptainerFiles(t *contents.Tree, cf *v1.ConfigFile, definition, labels string, like contents.Meta) (*apptainerFiles, error) {
	if k := t.At(apptainerDir); k != nil && k.Kids == nil {
		return nil, hinterr.Errorf(hinterr.ErrUnsupported, "/%s: not a directory: Apptainer could not run the image", apptainerDir)
	}
	c := cf.Config
	keep := t.At(sifRunscript) != nil && (len(c.Entrypoint)+len(c.Cmd) == 0 || slices.Equal(c.Entrypoint, []string{"/" + sifRunscript}))
	a := &apptainerFiles{}
	add := func(e contents.Extra, mode uint32) {
		m := like
		m.Mode = mode
		e.Like = &m
		a.extras = append(a.extras, e)
	}
	const program, data = 0o755, 0o644
	for _, d := range apptainerDirs {
		if t.At(d) == nil && a.hasDir(t, path.Dir(d)) {
			add(contents.Extra{Name: d + "/"}, program)
		}
	}
	for _, name := range contents.SortedKeys(apptainerLinks) {
		k := t.At(name)
		if k == nil || k.Kind == contents.KindSymlink && k.Link != apptainerLinks[name] && !keep {
			add(contents.Extra{Name: name, Link: apptainerLinks[name]}, 0o777)
		}
	}
	// Apptainer mounts its own files over these.
	for _, name := range []string{"etc/hosts", "etc/resolv.conf"} {
		if t.At(name) == nil && a.hasDir(t, "etc") {
			add(contents.Extra{Name: name}, data)
		}
	}
	scripts := map[string]string{sifRunscript: runscript(c), sifImageEnv: imageEnv(c)}
	maps.Copy(scripts, apptainerScripts)
	for _, name := range contents.SortedKeys(scripts) {
		if !keep || name != sifImageEnv && t.At(name) == nil {
			add(contents.Extra{Name: name, Body: []byte(scripts[name])}, program)
		}
	}
	if keep {
		return a, nil
	}
	add(contents.Extra{Name: sifDefinition, Body: []byte(definition)}, data)
	add(contents.Extra{Name: sifLabels, Body: []byte(labels)}, data)
	var err error
	a.metadata, err = inspected(scripts, definition, labels)
	return a, err
}

// hasDir reports whether a directory exists, or is among the added files.
func (a *apptainerFiles) hasDir(t *contents.Tree, name string) bool {
	if k := t.At(name); k != nil {
		return k.Kids != nil
	}
	return slices.ContainsFunc(a.extras, func(e contents.Extra) bool { return e.Name == name+"/" })
}

// inspected returns the output of apptainer inspect (pkg/inspect/metadata.go), which would otherwise run a shell
// in the image.
func inspected(scripts map[string]string, definition, labels string) ([]byte, error) {
	text := func(s string) string { return strings.TrimRight(s, "\n") }
	return jsonobject.Encode(map[string]any{"type": "container", "data": map[string]any{"attributes": map[string]any{
		"environment": map[string]string{"/" + sifImageEnv: text(scripts[sifImageEnv]), "/" + sifUserEnv: text(scripts[sifUserEnv])},
		"labels":      json.RawMessage(labels),
		"runscript":   text(scripts[sifRunscript]), "startscript": text(scripts[sifStartscript]), "deffile": text(definition),
	}}})
}
