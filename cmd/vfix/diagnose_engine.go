package main

import (
	"context"
	"errors"
	"os"

	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/images"
)

// What vfix diagnose is made of: package diagnose reads crashes, package images the files
// of an image; neither knows the other.

// diagnoseOptions are what the engine is told.
type diagnoseOptions struct {
	root  string // SOURCE of the files, "" for this machine
	media images.MediaOptions
}

// diagnoseAll diagnoses each CRASH; what can be read is returned beside the errors of what
// cannot.
func diagnoseAll(ctx context.Context, args []string, o diagnoseOptions) ([]*diagnose.Result, error) {
	d, done, err := diagnoseRoot(ctx, o)
	if err != nil {
		return nil, err
	}
	defer done()
	var all []*diagnose.Result
	var errs []error
	for _, arg := range args {
		r, err := diagnoseOne(arg, d)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(errs...)
}

// diagnoseRoot opens the files of the system that the program ran in.
func diagnoseRoot(ctx context.Context, o diagnoseOptions) (diagnose.Options, func(), error) {
	d := diagnose.Options{RootName: o.root}
	path := "/"
	done := func() {}
	if o.root != "" {
		root, err := images.OpenRoot(ctx, o.root, o.media)
		if err != nil {
			return d, nil, err
		}
		done = func() { root.Close() }
		if root.FS != nil {
			d.Root, d.IsImage = root.FS, true
			return d, done, nil
		}
		path, d.RootName = root.Path, root.Path
	}
	folder, err := diagnose.OpenFolder(path)
	if err != nil {
		done()
		return d, nil, err
	}
	d.Root = folder
	return d, func() { folder.Close(); done() }, nil
}

func diagnoseOne(arg string, d diagnose.Options) (*diagnose.Result, error) {
	switch {
	case arg == "-":
		return diagnose.Text("stdin", os.Stdin, d)
	case diagnose.IsFile(arg):
		return diagnose.File(arg, d)
	}
	return diagnose.Line(arg, d)
}
