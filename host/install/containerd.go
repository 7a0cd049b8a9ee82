// The configuration of containerd itself, and of the containerd in Kubernetes distributions.
// https://github.com/containerd/containerd/blob/main/docs/cri/config.md

package install

import (
	"debug/buildinfo"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"vfix.dev/vfix/internal/hinterr"
)

const (
	containerdConfig = "etc/containerd/config.toml"
	// runtimeType is the shim that runs a program with runc's command line.
	runtimeType = "io.containerd.runc.v2"
)

// criPlugin is the plugin that has the runtimes, by the configuration's version
// (containerd, docs/PLUGINS.md and version/config). A file without a version has 1.
var criPlugin = map[int]string{
	1: "cri",
	2: "io.containerd.grpc.v1.cri",
	3: "io.containerd.cri.v1.runtime",
}

// handler describes the table of a runtime in a containerd configuration.
type handler struct {
	version int
	like    map[string]any // the runtime that it is modelled on, or nil
	// runc: the default runtime must also be written. Up to 1.7 a file's runtimes replace the built-in one
	// (containerd issue 7982).
	runc   bool
	cgroup string // TOML for SystemdCgroup instead of the one in like, "" for that one
}

// table is the runtime's table. All settings of the model except its program are copied, above all the cgroup
// driver. Annotations reach vfix only by pod_annotations.
func (p *planner) table(h handler) string {
	name := fmt.Sprintf("plugins.%q.containerd.runtimes.%s", criPlugin[h.version], p.Name)
	like, _ := h.like["options"].(map[string]any)
	top, options := scalars(h.like), scalars(like)
	if t, ok := top["runtime_type"].(string); !ok || t == "" {
		top["runtime_type"] = runtimeType
	}
	annotations, _ := top["pod_annotations"].([]any)
	top["pod_annotations"] = append(slices.Clone(annotations), any(annotationPattern))
	delete(top, "runtime_engine")
	delete(top, "runtime_path")
	options["BinaryName"] = p.runtimePath()
	if h.cgroup != "" {
		delete(options, "SystemdCgroup")
	}
	text := ""
	if h.runc {
		text = fmt.Sprintf("# Without this, containerd 1 has no runtime but those that follow.\n[plugins.%q.containerd.runtimes.runc]\nruntime_type = %q\n",
			criPlugin[h.version], runtimeType)
	}
	a, err := toml.Marshal(top)
	p.failed(err)
	b, err := toml.Marshal(options)
	p.failed(err)
	text += "[" + name + "]\n" + string(a) + "[" + name + ".options]\n" + string(b)
	if h.cgroup != "" {
		text += "SystemdCgroup = " + h.cgroup + "\n"
	}
	return text
}

// annotationPattern matches the annotations of a pod that are passed to the runtime.
const annotationPattern = "dev.vfix.*"

func scalars(m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if _, deep := v.(map[string]any); !deep {
			out[k] = v
		}
	}
	return out
}

// configFile is one file of containerd's configuration.
type configFile struct {
	name string // in the root
	data []byte
	tree map[string]any
}

// containerdFiles reads the main file and what it imports, in containerd's order.
func (p *planner) containerdFiles(main string) (all []configFile) {
	names := []string{main}
	for i := 0; i < len(names); i++ {
		f := configFile{name: names[i], data: p.base(names[i])}
		f.tree = p.parseTOML("/"+f.name, f.data)
		all = append(all, f)
		for _, pattern := range importsOf(f.name, f.tree) {
			names = union(names, p.glob(pattern)...)
		}
	}
	return all
}

// importsOf returns the files that one imports, as patterns in the root.
func importsOf(name string, tree map[string]any) []string {
	list, _ := tree["imports"].([]any)
	var all []string
	for _, v := range list {
		s, ok := v.(string)
		if !ok {
			continue
		}
		if !path.IsAbs(s) {
			s = path.Join("/", path.Dir(name), s)
		}
		all = append(all, rel(s))
	}
	return all
}

func (p *planner) versionOf(file string, tree map[string]any) int {
	v, ok := tree["version"]
	if !ok {
		return 1
	}
	n, ok := v.(int64)
	switch {
	case !ok || n < 1:
		p.refuse(hinterr.ErrDamaged, "", "/%s: version %v", file, v)
	case n == 4: // moved the server's own tables; plugins are as in 3
		n = 3
	case criPlugin[int(n)] == "":
		p.refuse(hinterr.ErrUnsupported, "", "/%s: version %d; vfix knows 1 to 4", file, n)
	}
	return int(n)
}

// planContainerd adds the runtime to containerd's own configuration, which it makes if it is missing:
// containerd uses its defaults for the rest.
func planContainerd(p *planner) {
	main := p.configPath()
	files := p.containerdFiles(main)
	two := p.isContainerd2(bins("containerd"))
	if len(files[0].data) == 0 {
		h := handler{version: 2, runc: true}
		if two {
			h = handler{version: 3}
		}
		p.criBlock(main, h, true)
		return
	}
	h := handler{version: p.versionOf(main, files[0].tree)}
	for _, f := range files {
		p.criDisabled(f)
		if p.Default && lookup(f.tree, []string{"plugins", criPlugin[h.version], "containerd", "default_runtime_name"}) != nil {
			p.refuse(ErrConflict, fmt.Sprintf("set it to %q there by hand, and omit --default-runtime", p.Name), "/%s: names a default_runtime_name already", f.name)
		}
	}
	if two || h.version == 3 {
		p.containerd2(files, h)
	} else {
		p.containerd1(files, h)
	}
}

// containerd1 appends to the file whose CRI section counts. Up to 1.7 a file's section of a
// plugin replaces those of the files before it as a whole (containerd issue 5837), so a file with only the
// new runtime would remove everything else.
func (p *planner) containerd1(files []configFile, h handler) {
	at := files[0]
	for _, f := range files {
		if lookup(f.tree, []string{"plugins", criPlugin[h.version]}) != nil {
			at = f
		}
	}
	h.like = p.model(at.tree, h.version)
	h.runc = h.like == nil
	p.criBlock(at.name, h, false)
}

// containerd2 adds a file to a directory that is imported, if there is one; such files are
// merged by member from 2.0 on (containerd pull request 9982). Their version may not be higher
// than the main file's.
func (p *planner) containerd2(files []configFile, h handler) {
	for _, f := range files {
		if m := p.model(f.tree, h.version); m != nil {
			h.like = m
		}
	}
	for _, pattern := range importsOf(files[0].name, files[0].tree) {
		if path.Base(pattern) == "*.toml" {
			p.criBlock(path.Join(path.Dir(pattern), "99-vfix.toml"), h, true)
			return
		}
	}
	p.criBlock(files[0].name, h, false)
}

// criBlock plans a file that gets the runtime's table; own: the file contains nothing else.
func (p *planner) criBlock(name string, h handler, own bool) {
	p.adopt(h.like)
	head := ""
	if own {
		head = fmt.Sprintf("version = %d\n\n", h.version)
	}
	if p.Default {
		head += fmt.Sprintf("[plugins.%q.containerd]\ndefault_runtime_name = %q\n\n", criPlugin[h.version], p.Name)
	}
	p.blockFile(name, head+p.table(h), "plugins", criPlugin[h.version], "containerd", "runtimes", p.Name, "options", "BinaryName")
}

// model returns the runtime that containers get by default.
func (p *planner) model(tree map[string]any, version int) map[string]any {
	top := []string{"plugins", criPlugin[version], "containerd"}
	name, _ := lookup(tree, append(top, "default_runtime_name")).(string)
	if name == "" || name == p.Name {
		name = "runc"
	}
	m, _ := lookup(tree, append(top, "runtimes", name)).(map[string]any)
	return m
}

// adopt makes vfix wrap the program that the model's table names, if the user names none.
func (p *planner) adopt(like map[string]any) {
	if t, _ := like["runtime_type"].(string); t != "" && t != runtimeType && !strings.HasPrefix(t, "io.containerd.runc.") {
		p.refuse(hinterr.ErrUnsupported, fmt.Sprintf("make a runtime of type %s the default one first", runtimeType),
			"the default runtime is of type %s, and vfix wraps only runtimes with runc's command line", t)
	}
	program, _ := lookup(like, []string{"options", "BinaryName"}).(string)
	if program != "" && p.Runtime == "" {
		p.wraps = program
		p.note("containers run by %s, as those of the default runtime do", program)
	}
}

// criDisabled warns of a configuration in which runtimes have no effect.
func (p *planner) criDisabled(f configFile) {
	list, _ := f.tree["disabled_plugins"].([]any)
	for _, v := range list {
		if s, _ := v.(string); slices.Contains([]string{"cri", criPlugin[2], criPlugin[3]}, s) {
			p.warn("/%s: disables the plugin %s, so that Kubernetes cannot use this containerd; 'ctr run --runc-binary %s' and nerdctl can still use vfix",
				f.name, s, p.runtimePath())
		}
	}
}

// isContainerd2 finds out from the program's build information whether it is containerd 2.
func (p *planner) isContainerd2(programs []string) bool {
	for _, name := range programs {
		f, err := p.open(name)
		if err != nil {
			continue
		}
		info, err := buildinfo.Read(f)
		f.Close()
		if err == nil {
			return strings.HasPrefix(info.Path, "github.com/containerd/containerd/v2/")
		}
	}
	return false
}
