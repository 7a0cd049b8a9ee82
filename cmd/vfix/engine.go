// The functions that the verbs call, as one value, so that a test can replace each of them.

package main

import (
	"context"

	"vfix.dev/vfix/host/bench"
	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/host/doctor"
	"vfix.dev/vfix/host/hotfix"
	"vfix.dev/vfix/host/install"
	"vfix.dev/vfix/host/nri"
	"vfix.dev/vfix/host/run"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/images/source"
)

// engine is what the verbs call: package images, or values made up by a test.
type engine struct {
	// answers reports whether a container engine answers; nil: one does.
	answers func(ctx context.Context, o source.Options) bool
	scan    func(ctx context.Context, source string, o images.ScanOptions) (*contents.Findings, error)
	patch   func(ctx context.Context, paths []string, o patch.Options) (*contents.Findings, error)
	rebuild func(ctx context.Context, source string, o images.RebuildOptions) (*images.Rebuilt, error)
	// rebuildAll rebuilds a list of images, which readList reads.
	readList   func(name string, part lists.Part) ([]lists.Item, error)
	rebuildAll listVerb
	scanAll    listVerb
	verify     func(ctx context.Context, source string, o images.VerifyOptions) (*images.Verified, error)
	layer      func(ctx context.Context, o images.LayerOptions) (*images.Layered, error)
	// diagnose returns what it could read beside the errors of what it could not.
	diagnose func(ctx context.Context, crashes []string, o crashOptions) ([]*diagnose.Result, error)
	hotfix   func(ctx context.Context, source string, o hotfix.Options) (*hotfix.Hotfixed, error)
	// run returns only if the command could not be started.
	run func(args []string, o run.Options) error
	// nri returns only if the plugin was not executed.
	nri    func(ctx context.Context, o nri.Options) error
	doctor func(ctx context.Context, o doctor.Options) (*doctor.Report, error)
	list   func(ctx context.Context, source string, o lists.ListOptions) error

	bench  func(ctx context.Context, o bench.Options) ([]bench.Figure, error)
	unpack func(ctx context.Context, source, dir string, o source.Options) error

	install, uninstall func(install.Options) (*install.Result, error)
}

var theEngine = engine{
	answers:    source.Answers,
	scan:       images.Scan,
	patch:      patch.All,
	rebuild:    images.Rebuild,
	rebuildAll: lists.Rebuild,
	scanAll:    lists.Scan,
	readList:   lists.Read,
	verify:     images.Verify,
	layer:      images.Layer,
	diagnose:   diagnoseAll,
	hotfix:     hotfix.Hotfix,

	run:       run.Run,
	nri:       startNRI,
	doctor:    doctor.Run,
	list:      lists.List,
	bench:     bench.Run,
	unpack:    images.Unpack,
	install:   install.Install,
	uninstall: install.Uninstall,
}
