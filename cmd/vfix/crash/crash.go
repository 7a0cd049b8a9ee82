// Package crash finds out whether a CRASH of vfix diagnose is a file, text, process or container, and reads
// it. Package diagnose reads crashes, package images reads the files of an image, and neither imports the
// other.
package crash

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/fallback"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/quote"
	"vfix.dev/vfix/internal/redact"
	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/rewriter/find"
)

// Options are the settings of the engine.
type Options struct {
	Root  string // SOURCE of the files, "" for this machine
	Media media.Options
	Shim  fallback.Shim // that an image may have
	// Output is the destination that a rebuild of an image needs here, as words; nil: none.
	Output func(source string) []string
}

// reader reads the CRASHes of one command.
type reader struct {
	ctx    context.Context
	o      Options
	d      diagnose.Options
	root   *sources.Root     // that the user named, nil for none
	images map[string]*image // by reference
	done   []func()
}

type image struct {
	root    *sources.Root
	scan    *diagnose.Scanned
	jvm     string // what ends its JVM, "" for nothing
	program string
	why     string // it was not examined; "" if it was
}

// Diagnose diagnoses each CRASH. It returns the results of those that can be read, and the errors of the
// others.
func Diagnose(ctx context.Context, args []string, o Options) ([]*diagnose.Result, error) {
	r := &reader{ctx: ctx, o: o, images: map[string]*image{}}
	defer func() {
		for _, f := range r.done {
			f()
		}
	}()
	if err := r.openRoot(); err != nil {
		return nil, err
	}
	r.d.Resolve = r.resolve
	var all []*diagnose.Result
	var errs []error
	for _, arg := range args {
		found, err := r.read(arg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, found)
	}
	return all, errors.Join(errs...)
}

// openRoot opens the files of the system that the program ran in.
func (r *reader) openRoot() error {
	r.d = diagnose.Options{RootName: r.o.Root}
	path := "/"
	if r.o.Root != "" {
		root, err := sources.OpenRoot(r.ctx, r.o.Root, r.o.Media)
		if err != nil {
			return err
		}
		r.root, r.d.Callers = root, r.callers(root)
		r.done = append(r.done, func() { root.Close() })
		if root.FS != nil {
			r.d.Root, r.d.IsImage, r.d.Output = root.FS, root.Src.Image != nil, r.output(r.o.Root)
			return nil
		}
		path, r.d.RootName = root.Path, root.Path
		if fi, err := os.Stat(path); err == nil && !fi.IsDir() {
			return hinterr.With(fmt.Errorf("--root: %s is neither a directory, a tar archive nor an image", path),
				"%s", cmp.Or(screen.Unpack(path), "see 'vfix help sources'"))
		}
	}
	dir, err := rootpath.OpenDir(path)
	if err != nil {
		return err
	}
	r.d.Root = dir
	r.done = append(r.done, func() { dir.Close() })
	return nil
}

// callers gives the files of a root that have live or unknown call sites of a function of the page. An empty
// list says that the whole root was examined.
func (r *reader) callers(root *sources.Root) func(function string) ([]string, error) {
	scan := sync.OnceValues(func() (*contents.Findings, error) { return r.scan(root) })
	return func(function string) (all []string, err error) {
		f, err := scan()
		if err != nil {
			return nil, err
		}
		for i := range f.Files {
			if slices.ContainsFunc(f.Files[i].Report.Sites, func(s find.Site) bool {
				return s.Function.String() == function && s.Verdict.Finding()
			}) {
				all = append(all, f.Files[i].Path)
			}
		}
		if all == nil && !f.Complete() {
			return nil, errors.New("not all of them were examined")
		}
		return all, nil
	}
}

func (r *reader) scan(root *sources.Root) (*contents.Findings, error) {
	return images.ScanSource(r.ctx, root.Session, root.Src, images.ScanOptions{Media: r.o.Media, Shim: r.o.Shim})
}

func (r *reader) output(source string) []string {
	if r.o.Output == nil {
		return nil
	}
	return r.o.Output(source)
}

// podPrefixes say that a CRASH is a pod of the cluster that kubectl uses.
var podPrefixes = []string{"pod/", "pods/", "pod:"}

// read detects the kind of a CRASH, and reads it.
func (r *reader) read(arg string) (*diagnose.Result, error) {
	pid, isPID := diagnose.ParsePID(arg)
	name, isContainer := strings.CutPrefix(arg, images.ContainerPrefix)
	switch {
	case arg == "-":
		return diagnose.Text("stdin", os.Stdin, r.d)
	case isContainer:
		return r.container(name)
	case diagnose.IsFile(arg):
		return diagnose.File(arg, r.d)
	case isPID:
		return diagnose.PID(pid, r.d)
	case strings.ContainsAny(arg, " \t\n"):
		return diagnose.Line(arg, r.d)
	}
	for _, prefix := range podPrefixes {
		if name, is := strings.CutPrefix(arg, prefix); is {
			return r.pod(arg, name)
		}
	}
	if ref, err := media.ParseRef(arg); err == nil && !ref.Guessed && isImage(ref.Transport) {
		return r.image(arg, arg)
	}
	found, err := r.container(arg)
	if !errors.Is(err, hinterr.ErrNotFound) && !errors.Is(err, hinterr.ErrNoDaemon) {
		return found, err
	}
	// An engine here may have an image of that name. Registries are not queried: none was named.
	if result, imageErr := r.image(arg, string(media.Daemon)+":"+arg); imageErr == nil {
		return result, nil
	}
	return nil, notFound(arg, err)
}

// notFound is the error for a word that is neither a file nor a container.
func notFound(arg string, cause error) error {
	hint := "'vfix diagnose --help' lists what a CRASH may be; docker ps -a lists containers"
	if strings.ContainsAny(arg, ":/") && !strings.HasPrefix(arg, ".") && !strings.HasPrefix(arg, "/") {
		hint = "for an image in a registry: 'vfix scan docker://" + arg + "'; for a pod: 'vfix diagnose pod/NAME'"
	}
	return hinterr.With(fmt.Errorf("%s: neither a file nor a container or image of an engine here: %w", arg, cause), "%s", hint)
}

func isImage(t media.Transport) bool { return t != media.Dir && t != media.Plain }

// kubectlLimit is how long kubectl may take.
const kubectlLimit = 15 * time.Second

// pod asks kubectl for a pod, NAME or NAMESPACE/NAME.
func (r *reader) pod(arg, name string) (*diagnose.Result, error) {
	args := []string{"get", "pod", "-o", "json"}
	if ns, pod, ok := strings.Cut(name, "/"); ok {
		args, name = append(args, "--namespace="+ns), pod
	}
	ctx, cancel := context.WithTimeout(r.ctx, kubectlLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", append(args, "--", name)...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		why := err.Error()
		if exit, is := errors.AsType[*exec.ExitError](err); is && len(exit.Stderr) > 0 {
			why = strings.TrimSpace(redact.Redact(string(exit.Stderr)))
		}
		return nil, hinterr.With(fmt.Errorf("%s: kubectl: %s", arg, why),
			"on a machine with kubectl: kubectl get pod %s -o json > POD.json, then 'vfix diagnose POD.json'", quote.Words([]string{name}))
	}
	return diagnose.Text(arg, bytes.NewReader(out), r.d)
}

// image is the answer about an image.
func (r *reader) image(arg, source string) (*diagnose.Result, error) {
	f, err := images.Scan(r.ctx, source, images.ScanOptions{Media: r.o.Media, Shim: r.o.Shim})
	if err != nil {
		return nil, err
	}
	d := r.d
	if !strings.HasPrefix(source, string(media.Daemon)+":") {
		d.Output = r.output(source)
	}
	return diagnose.Image(arg, scanned(f), d), nil
}

// scanned is the part of findings that a diagnosis needs.
func scanned(f *contents.Findings) *diagnose.Scanned {
	out := &diagnose.Scanned{Complete: true}
	for _, one := range f.All() {
		out.Affected = out.Affected || one.Verdict() == contents.Affected
		out.Complete = out.Complete && one.Complete()
		out.Sites += one.UncoveredSites()
		for i := range one.Files {
			if one.Files[i].Covered == "" && one.Files[i].Open() > 0 {
				out.Files = append(out.Files, one.Files[i].Path)
			}
		}
	}
	return out
}

// container looks at a container and, if no root was named, into its image.
func (r *reader) container(name string) (*diagnose.Result, error) {
	c, err := media.FindContainer(r.ctx, name, r.o.Media)
	if err != nil {
		return nil, err
	}
	d := r.d
	if c.State.Running {
		if d.RootName == "" { // its files are those of the process, not this machine's
			d.RootName, d.IsImage, d.Root = c.Config.Image, true, nil
		}
		return diagnose.PID(c.State.Pid, d)
	}
	e := diagnose.Exited{}
	r.describe(&e, c)
	r.lookInto(&e, &d)
	return diagnose.Container(e, d), nil
}

func (r *reader) describe(e *diagnose.Exited, c *media.Container) {
	name := strings.TrimPrefix(c.Name, "/")
	*e = diagnose.Exited{
		Label: "container " + name, Name: name, ID: c.ID, Image: c.Config.Image, ImageID: c.Image, Program: c.Path,
		Words: slices.Concat(c.Args, c.Config.Env), Status: c.State.ExitCode, To: c.Finished,
		Error: c.State.Error, OutOfMemory: c.State.OOMKilled, Memory: c.HostConfig.Memory, Line: e.Line, Elsewhere: !thisKernel(c.Kernel),
	}
}

// thisKernel reports whether containers of an engine on this machine run on this machine's kernel, and not in
// a virtual machine.
func thisKernel(version string) bool {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	return err == nil && strings.TrimSpace(string(b)) == version
}

// resolve finds the container that ended, if an engine here has it, and its image.
func (r *reader) resolve(e *diagnose.Exited, d *diagnose.Options) {
	id := e.ID
	if id == "" && e.Pod == "" {
		id = e.Name
	}
	if id != "" {
		c, err := media.FindContainer(r.ctx, id, r.o.Media)
		// A name does not identify a container; the same exit, of the same image, does.
		if err == nil && (e.ID != "" || !c.State.Running && c.State.ExitCode == e.Status && (e.Image == "" || e.Image == c.Config.Image)) {
			label, pod, node, status, to := e.Label, e.Pod, e.Node, e.Status, e.To
			r.describe(e, c)
			e.Label, e.Pod, e.Node = label, pod, node
			if !to.IsZero() { // it may have been started again since
				e.Status, e.To = status, to
			}
			if c.State.Running || c.State.ExitCode != status {
				e.Status, e.To, e.NoTime, e.Error = status, to, to.IsZero(), ""
			}
		}
	}
	r.lookInto(e, d)
}

// The signals that are examined: SIGKILL, SIGSEGV and SIGSYS.
const killed, faulted, refused = 9, 11, 31

// lookInto examines the image of a container, if an engine here has it and its files can show more.
func (r *reader) lookInto(e *diagnose.Exited, d *diagnose.Options) {
	e.FixedHeap = slices.ContainsFunc(e.Words, limitsHeap)
	ref := "" // the user says what it ran in
	if d.RootName == "" {
		d.Root = nil
		if e.Image == "" {
			e.NoScan = "its name is not known"
			return
		}
		if ref = e.ImageID; !strings.HasPrefix(ref, "sha256:") || e.Pod != "" {
			ref = e.Image
		}
		d.RootName, d.IsImage = e.Image, true
	}
	signal := e.Signal()
	i := r.open(ref, signal == faulted || signal == refused || signal == killed)
	if i.root != nil && i.root.FS != nil {
		d.Root, d.Callers = i.root.FS, r.callers(i.root)
	}
	e.Program = cmp.Or(e.Program, i.program)
	if signal == killed {
		e.JVM = i.jvm
	}
	e.Scan, e.NoScan = i.scan, i.why
	e.Has = programs(d.Root, e)
}

// open examines, once, an image that an engine here has or, if the name is "", the root that the user named.
func (r *reader) open(ref string, scan bool) *image {
	if i := r.images[ref]; i != nil {
		return i
	}
	i := &image{root: r.root}
	r.images[ref] = i
	if ref != "" {
		root, err := sources.OpenRoot(r.ctx, string(media.Daemon)+":"+ref, r.o.Media)
		if err != nil {
			i.why = "no engine here has it"
			if !errors.Is(err, hinterr.ErrNotFound) && !errors.Is(err, hinterr.ErrNoDaemon) {
				i.why = err.Error()
			}
			return i
		}
		i.root = root
		r.done = append(r.done, func() { root.Close() })
	}
	i.program = i.root.Program
	if !scan {
		return i
	}
	f, err := r.scan(i.root)
	if err != nil {
		i.why = err.Error()
		return i
	}
	i.scan = scanned(f)
	for _, h := range f.Hazards {
		if strings.HasPrefix(string(h.Kind), "java-") && i.jvm == "" {
			i.jvm = "It has " + h.Title() + ", which " + h.Means() + "."
		}
	}
	return i
}

// programs reports which of the names are programs of a container: in the directories of its image, or words of
// its command.
func programs(root fs.FS, e *diagnose.Exited) func(comm string) bool {
	const commLen = 15 // the kernel keeps as many bytes of a name
	is := func(name, comm string) bool {
		return name == comm || len(comm) == commLen && strings.HasPrefix(name, comm)
	}
	return func(comm string) bool {
		if strings.ContainsRune(comm, '/') {
			return false
		}
		if slices.ContainsFunc(e.Words, func(w string) bool { return !strings.Contains(w, "=") && is(path.Base(w), comm) }) {
			return true
		}
		if root == nil {
			return false
		}
		dirs := rootpath.Programs
		for _, w := range append([]string{e.Program}, e.Words...) {
			if path.IsAbs(w) {
				dirs = append(dirs[:len(dirs):len(dirs)], path.Dir(w)[1:])
			}
		}
		return slices.ContainsFunc(dirs, func(dir string) bool {
			if len(comm) < commLen {
				_, err := fs.Stat(root, path.Join(dir, comm))
				return err == nil
			}
			all, _ := fs.ReadDir(root, path.Join(".", dir))
			return slices.ContainsFunc(all, func(f fs.DirEntry) bool { return is(f.Name(), comm) })
		})
	}
}

// limitsHeap reports whether a word of a command line, or a variable, limits the heap of a JVM.
func limitsHeap(word string) bool {
	return slices.ContainsFunc([]string{"-Xmx", "-XX:MaxRAM", "-XX:MaxHeapSize"}, func(o string) bool { return strings.Contains(word, o) })
}
