// Package crash finds what a CRASH of vfix diagnose is, a file, text, process or container, and has it
// read: package diagnose reads crashes, package images the files of an image; neither knows the other.
package crash

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/rootpath"
)

// Options are what the engine is told.
type Options struct {
	Root  string // SOURCE of the files, "" for this machine
	Media media.Options
}

// Diagnose diagnoses each CRASH; what can be read is returned beside the errors of what
// cannot.
func Diagnose(ctx context.Context, args []string, o Options) ([]*diagnose.Result, error) {
	d, done, err := diagnoseRoot(ctx, o)
	if err != nil {
		return nil, err
	}
	defer done()
	var all []*diagnose.Result
	var errs []error
	for _, arg := range args {
		r, err := diagnoseOne(ctx, arg, d, o.Media)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(errs...)
}

// diagnoseRoot opens the files of the system that the program ran in.
func diagnoseRoot(ctx context.Context, o Options) (diagnose.Options, func(), error) {
	d := diagnose.Options{RootName: o.Root}
	path := "/"
	done := func() {}
	if o.Root != "" {
		root, err := sources.OpenRoot(ctx, o.Root, o.Media)
		if err != nil {
			return d, nil, err
		}
		done = func() { root.Close() }
		if root.FS != nil {
			d.Root, d.IsImage, d.Callers = root.FS, true, root.Callers
			return d, done, nil
		}
		path, d.RootName = root.Path, root.Path
	}
	folder, err := rootpath.OpenFolder(path)
	if err != nil {
		done()
		return d, nil, err
	}
	d.Root = folder
	return d, func() { folder.Close(); done() }, nil
}

// diagnoseOne finds out what a CRASH is, and reads it.
func diagnoseOne(ctx context.Context, arg string, d diagnose.Options, media media.Options) (*diagnose.Result, error) {
	pid, isPID := diagnose.ParsePID(arg)
	name, isContainer := strings.CutPrefix(arg, images.ContainerPrefix)
	switch {
	case arg == "-":
		return diagnose.Text("stdin", os.Stdin, d)
	case isContainer:
		return diagnoseContainer(ctx, name, d, media)
	case diagnose.IsFile(arg):
		return diagnose.File(arg, d)
	case isPID:
		return diagnose.PID(pid, d)
	case strings.ContainsAny(arg, " \t\n"):
		return diagnose.Line(arg, d)
	}
	r, err := diagnoseContainer(ctx, arg, d, media)
	if errors.Is(err, hinterr.ErrNotFound) || errors.Is(err, hinterr.ErrNoDaemon) {
		err = &notFound{arg, err}
	}
	return r, err
}

// notFound is a word that is no file, and no container either.
type notFound struct {
	arg   string
	cause error
}

func (e *notFound) Error() string { return e.arg + ": no such file, and " + e.cause.Error() }

func (e *notFound) Unwrap() error { return e.cause }

func (e *notFound) Hint() string {
	if strings.ContainsAny(e.arg, ":/") && !strings.HasPrefix(e.arg, ".") && !strings.HasPrefix(e.arg, "/") {
		return "for an image: 'vfix scan " + e.arg + "'; for a crash in one: 'vfix diagnose --root " + e.arg + " CORE'"
	}
	return "'vfix diagnose --help' lists what a CRASH may be; docker ps -a lists containers"
}

// diagnoseContainer looks at a container and, where no root was named, into its image.
func diagnoseContainer(ctx context.Context, name string, d diagnose.Options, o media.Options) (*diagnose.Result, error) {
	c, err := media.FindContainer(ctx, name, o)
	if err != nil {
		return nil, err
	}
	if c.Running {
		if d.RootName == "" { // its files are those of the process, not this machine's
			d.RootName, d.IsImage, d.Root = c.Image, true, nil
		}
		return diagnose.PID(c.PID, d)
	}
	if d.RootName == "" {
		d.RootName, d.IsImage = c.Image, true
		if root, err := sources.OpenRoot(ctx, string(media.Daemon)+":"+c.ImageID, o); err == nil {
			defer root.Close()
			d.Root, d.Callers = root.FS, root.Callers
		}
	}
	e := diagnose.Exited{
		Name: c.Name, ID: c.ID, Image: c.Image, Has: programs(d.Root, c), Program: c.Program, Status: c.Status, To: c.Finished, Error: c.Error,
		OutOfMemory: c.OutOfMemory, Memory: c.Memory, FixedHeap: slices.ContainsFunc(c.Words, limitsHeap),
	}
	const killed = 137
	if c.Status == killed {
		e.JVM = jvmOf(ctx, c.ImageID, o)
	}
	return diagnose.Container(e, d), nil
}

// binFolders are where programs of an image are.
var binFolders = []string{"bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin"}

// programs reports of what name a container has programs: in the folders of its image, or as words of its command.
func programs(root fs.FS, c *media.Container) func(comm string) bool {
	const commLen = 15 // the kernel keeps as many bytes of a name
	is := func(name, comm string) bool {
		return name == comm || len(comm) == commLen && strings.HasPrefix(name, comm)
	}
	return func(comm string) bool {
		if strings.ContainsRune(comm, '/') {
			return false
		}
		if slices.ContainsFunc(c.Words, func(w string) bool { return !strings.Contains(w, "=") && is(path.Base(w), comm) }) {
			return true
		}
		if root == nil {
			return false
		}
		dirs := binFolders
		for _, w := range append([]string{c.Program}, c.Words...) {
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
			return slices.ContainsFunc(all, func(e fs.DirEntry) bool { return is(e.Name(), comm) })
		})
	}
}

// limitsHeap reports whether a word of a command line, or a variable, limits the heap of a JVM.
func limitsHeap(word string) bool {
	return slices.ContainsFunc([]string{"-Xmx", "-XX:MaxRAM", "-XX:MaxHeapSize"}, func(o string) bool { return strings.Contains(word, o) })
}

// jvmOf is the hazard that the JVM of an image has, "" for none; or where it cannot be read.
func jvmOf(ctx context.Context, image string, o media.Options) string {
	f, err := images.Scan(ctx, string(media.Daemon)+":"+image, images.ScanOptions{Media: o})
	if err != nil {
		return ""
	}
	for _, h := range f.Hazards {
		if strings.HasPrefix(string(h.Kind), "java-") {
			return "It has " + h.Title() + ", which " + h.Means() + "."
		}
	}
	return ""
}
