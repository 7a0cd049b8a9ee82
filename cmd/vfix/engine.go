// The functions that the verbs call, as one value, so that a test can replace each of them.

package main

import (
	"context"

	"vfix.dev/vfix/host/bench"
	"vfix.dev/vfix/host/diagnose"
	"vfix.dev/vfix/host/doctor"
	"vfix.dev/vfix/host/hotfix"
	"vfix.dev/vfix/host/install"
	"vfix.dev/vfix/host/run"
	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/images/patch"
	"vfix.dev/vfix/images/source"
)

// engine is what the verbs call: packages images and host, or values made up by a test.
type engine struct {
	// answers reports whether a container engine answers; nil: one does.
	answers func(context.Context, source.Options) bool
	scan    func(context.Context, string, images.ScanOptions) (*contents.Findings, error)
	patch   func(context.Context, []string, patch.Options) (*contents.Findings, error)
	rebuild func(context.Context, string, images.RebuildOptions) (*images.Rebuilt, error)
	verify  func(context.Context, string, images.VerifyOptions) (*images.Verified, error)
	layer   func(context.Context, images.LayerOptions) (*images.Layered, error)
	hotfix  func(context.Context, string, hotfix.Options) (*hotfix.Hotfixed, error)
	list    func(context.Context, string, lists.ListOptions) error
	// rebuildAll and scanAll work on the list that readList reads.
	readList            func(string, lists.Part) ([]lists.Item, error)
	rebuildAll, scanAll listVerb
	// diagnose returns what it could read beside the errors of what it could not.
	diagnose func(context.Context, []string, crashOptions) ([]*diagnose.Result, error)
	// run returns only if the command could not be started.
	run                func([]string, run.Options) error
	doctor             func(context.Context, doctor.Options) (*doctor.Report, error)
	bench              func(context.Context, bench.Options) ([]bench.Figure, error)
	unpack             func(context.Context, string, string, source.Options) error
	install, uninstall func(install.Options) (*install.Result, error)
}

var theEngine = engine{
	answers: source.Answers, scan: images.Scan, patch: patch.All, rebuild: images.Rebuild, verify: images.Verify, layer: images.Layer,
	hotfix: hotfix.Hotfix, list: lists.List, readList: lists.Read, rebuildAll: lists.Rebuild, scanAll: lists.Scan,
	diagnose: diagnoseAll, run: run.Run, doctor: doctor.Run, bench: bench.Run, unpack: images.Unpack,
	install: install.Install, uninstall: install.Uninstall,
}
