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
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
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
	output func(source string) []string // the destination of its rebuild, as words
}

// crashes reads the CRASHes of one command.
type crashes struct {
	ctx  context.Context
	o    crashOptions
	d    diagnose.Options
	root *source.Source         // nil for this machine
	dir  func() (string, error) // with the files of the root
	// scanned has the scans of roots and images by name, nil for those that cannot be scanned.
	scanned map[string]*diagnose.Scanned
	// sources has the names of what was scanned with their formats, by the names as typed.
	sources map[string]string
}

// diagnoseAll diagnoses each CRASH. It returns the results of those that can be read, and the errors of the others.
func diagnoseAll(ctx context.Context, args []string, o crashOptions) (all []*diagnose.Result, err error) {
	r := &crashes{ctx: ctx, o: o, scanned: map[string]*diagnose.Scanned{}, sources: map[string]string{}}
	r.d = diagnose.Options{RootName: o.root, Root: r, Here: r.here, Scan: r.scanNamed}
	r.d.Output = func(name string) []string { return o.output(cmp.Or(r.sources[name], name)) }
	if o.root != "" {
		if r.root, err = source.Open(ctx, o.root, o.scan.Media); err != nil {
			return nil, err
		}
		defer r.root.Close()
		r.d.IsImage = r.root.Image != nil
		r.dir = sync.OnceValues(func() (string, error) { return images.Directory(ctx, r.root, o.scan.Media) })
	}
	for _, arg := range args {
		found, readErr := r.read(arg)
		if readErr != nil {
			err = errors.Join(err, readErr)
			continue
		}
		all = append(all, found)
	}
	return all, err
}

// Open opens a file of the system that the program ran in. Only a core needs them.
func (r *crashes) Open(name string) (fs.File, error) {
	dir := "/"
	if r.root != nil {
		var err error
		if dir, err = r.dir(); err != nil {
			return nil, err
		}
	}
	files, err := rootpath.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer files.Close()
	return files.Open(name)
}

// scanNamed examines the root that the user named, or an image of an engine here, each once. Registries are not
// contacted: the user named none.
func (r *crashes) scanNamed(name string) *diagnose.Scanned {
	if _, known := r.scanned[name]; known {
		return r.scanned[name]
	}
	var f *contents.Findings
	var err error
	if r.root != nil {
		s := contents.NewSession(r.o.scan.Jobs, r.o.scan.Media.Progress, r.o.scan.Rewriter)
		defer s.Close()
		f, err = images.ScanSource(r.ctx, s, r.root, r.o.scan)
	} else {
		f, err = images.Scan(r.ctx, string(source.Daemon)+":"+name, r.o.scan)
	}
	r.scanned[name] = nil
	if err == nil {
		r.scanned[name] = r.sitesOf(name, f)
	}
	return r.scanned[name]
}

// sitesOf is the part of a scan that a diagnosis needs.
func (r *crashes) sitesOf(name string, f *contents.Findings) *diagnose.Scanned {
	r.sources[name] = f.Source
	s := &diagnose.Scanned{Live: map[string][]string{}, Complete: f.Complete() && f.Uncovered().Unknown == 0}
	for i := range f.Files {
		file := &f.Files[i]
		if file.Covered != "" {
			continue
		}
		for _, site := range file.Report.Sites {
			function := site.Function.String()
			switch {
			case site.Verdict == find.Live && !slices.Contains(s.Live[function], file.Path):
				s.Live[function] = append(s.Live[function], file.Path)
			case site.Verdict == find.Dormant:
				s.Dormant = true
			}
		}
	}
	return s
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
	if ref, err := source.ParseRef(arg); err == nil && !ref.Guessed && ref.Transport != source.Plain {
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
	f, err := images.Scan(r.ctx, source, r.o.scan)
	if err != nil {
		return nil, err
	}
	return diagnose.Image(arg, r.sitesOf(arg, f), r.d), nil
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
	records, booted, err := kernellog.Read()
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
