// What a CRASH of vfix diagnose is: a file, a text, a container or an image. Package diagnose reads crashes, package
// images reads images, and neither imports the other.

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/host/probe"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/kernellog"
	"vfix.dev/vfix/internal/rootpath"
	"vfix.dev/vfix/rewriter/find"
)

// crashOptions are the settings of a diagnosis.
type crashOptions struct {
	root   string // SOURCE of the files, "" for this machine
	scan   images.ScanOptions
	output func(source string) []string
}

// crashes reads the CRASHes of one command.
type crashes struct {
	ctx context.Context
	o   crashOptions
	d   diagnose.Options
	// scanned has the scans of roots and images by name, nil for those that cannot be scanned.
	scanned map[string]*diagnose.Scanned
	// sources has the names of what was scanned with their formats, by the names as typed.
	sources map[string]string
}

// diagnoseAll diagnoses each CRASH. It returns the results of those that can be read, and the errors of the others.
func diagnoseAll(ctx context.Context, args []string, o crashOptions) ([]*diagnose.Result, error) {
	r := &crashes{ctx: ctx, o: o, scanned: map[string]*diagnose.Scanned{}, sources: map[string]string{}}
	done, err := r.open()
	if err != nil {
		return nil, err
	}
	defer done()
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

// open opens the files of the system that the program ran in.
func (r *crashes) open() (done func(), err error) {
	r.d = diagnose.Options{RootName: r.o.root, Output: r.output, Here: r.here, Scan: r.scanNamed}
	dir, remove := "/", func() {}
	if r.o.root != "" {
		if dir, r.d.IsImage, remove, err = images.OpenRoot(r.ctx, r.o.root, r.o.scan.Media); err != nil {
			return nil, err
		}
	}
	files, err := rootpath.OpenDir(dir)
	if err != nil {
		remove()
		return nil, err
	}
	r.d.Root = files
	return func() { files.Close(); remove() }, nil
}

// scanNamed examines the root that the user named, or an image of an engine here, each once. Registries are not
// contacted: the user named none.
func (r *crashes) scanNamed(name string) *diagnose.Scanned {
	if _, known := r.scanned[name]; !known {
		from := name
		if r.o.root == "" {
			from = string(source.Daemon) + ":" + name
		}
		r.scanned[name], _ = r.scan(from)
	}
	return r.scanned[name]
}

// output is the destination of a rebuild, in words, of the same format as the source.
func (r *crashes) output(name string) []string { return r.o.output(cmp.Or(r.sources[name], name)) }

// scan examines an image or directory.
func (r *crashes) scan(source string) (*diagnose.Scanned, error) {
	f, err := images.Scan(r.ctx, source, r.o.scan)
	if err != nil {
		return nil, err
	}
	r.sources[source] = f.Source
	s := &diagnose.Scanned{Live: map[string][]string{}, Complete: f.Complete()}
	for i := range f.Files {
		if f.Files[i].Covered == "" {
			addSites(s, &f.Files[i])
		}
	}
	return s, nil
}

// addSites adds the call sites of one file.
func addSites(s *diagnose.Scanned, f *contents.File) {
	for _, site := range f.Report.Sites {
		function := site.Function.String()
		switch {
		case site.Verdict == find.Live && !slices.Contains(s.Live[function], f.Path):
			s.Live[function] = append(s.Live[function], f.Path)
		case site.Verdict == find.Dormant:
			s.Dormant = true
		case site.Verdict == find.Unknown:
			s.Complete = false
		}
	}
}

// read detects the kind of a CRASH, and reads it.
func (r *crashes) read(arg string) (*diagnose.Result, error) {
	name, isContainer := strings.CutPrefix(arg, images.ContainerPrefix)
	switch {
	case arg == "-":
		return diagnose.Text("stdin", os.Stdin, r.d)
	case isContainer:
		return r.container(name)
	case diagnose.IsFile(arg):
		return diagnose.File(arg, r.d)
	case strings.ContainsAny(arg, " \t\n"):
		return diagnose.Text("line", strings.NewReader(arg), r.d)
	}
	if ref, err := source.ParseRef(arg); err == nil && !ref.Guessed && ref.Transport != source.Dir && ref.Transport != source.Plain {
		return r.image(arg, arg)
	}
	found, err := r.container(arg)
	if !errors.Is(err, hinterr.ErrNotFound) && !errors.Is(err, hinterr.ErrNoDaemon) {
		return found, err
	}
	if found, imageErr := r.image(arg, string(source.Daemon)+":"+arg); imageErr == nil {
		return found, nil
	}
	hint := "'vfix diagnose --help' lists what a CRASH may be; docker ps -a lists containers"
	if strings.ContainsAny(arg, ":/") && !strings.HasPrefix(arg, ".") && !strings.HasPrefix(arg, "/") {
		hint = "for an image in a registry: 'vfix scan docker://" + arg + "'"
	}
	return nil, hinterr.With(fmt.Errorf("%s: neither a file nor a container or image of an engine here: %w", arg, err), "%s", hint)
}

func (r *crashes) image(arg, source string) (*diagnose.Result, error) {
	s, err := r.scan(source)
	if err != nil {
		return nil, err
	}
	return diagnose.Image(arg, s, r.d), nil
}

// container diagnoses a container of an engine here.
func (r *crashes) container(name string) (*diagnose.Result, error) {
	c, err := source.FindContainer(r.ctx, name, r.o.scan.Media)
	if err != nil {
		return nil, err
	}
	description, err := json.Marshal(c.InspectResponse)
	if err != nil {
		return nil, err
	}
	return diagnose.Text(name, bytes.NewReader(description), r.d)
}

// here returns what this machine knows of the end of a container: nothing if the engine's containers run in a virtual
// machine, or if no engine here has it.
func (r *crashes) here(name string) (served bool, messages []string) {
	c, err := source.FindContainer(r.ctx, name, r.o.scan.Media)
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil || strings.TrimSpace(string(release)) != c.Kernel {
		return false, nil
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	return probe.PagePerms(maps) != "", messagesAt(c.Finished)
}

// messagesAt returns this machine's kernel's messages around a time, as far as vfix may read them.
func messagesAt(end time.Time) (all []string) {
	const around = 2 * time.Second
	records, booted, err := kernellog.Read("/dev/kmsg")
	if err != nil {
		return nil
	}
	for _, record := range records {
		if d := booted.Add(record.At).Sub(end); d > -around && d < around {
			all = append(all, record.Text)
		}
	}
	return all
}
