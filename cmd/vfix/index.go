// The verb index: images that are examined before their first container starts.

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/host/index"
	"vfix.dev/vfix/host/ociruntime"
	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/store"
	"vfix.dev/vfix/internal/hinterr"
)

// IndexOptions are the choices of vfix index.
type IndexOptions struct {
	dir    string
	engine string
	watch  bool
}

func newIndexCommand(out *output, e engine) *cobra.Command {
	var opts IndexOptions
	cmd := &cobra.Command{
		Use:   "index [options] IMAGE...",
		Short: "Examine images of this node before containers start from them",
		Long: `Examine the layers of images that an engine of this node has, and keep the
results in the cache of vfix-runtime. The first container of an image then
starts as fast as the next ones. Without this, vfix-runtime examines an image
when its first container starts.

The engine's own command finds the layers: docker, podman (also for CRI-O), or
ctr for containerd, in the namespace k8s.io unless CONTAINERD_NAMESPACE names
another one. The engine needs a storage driver that is based on overlayfs.

With --watch, vfix runs until it is ended, and examines each image that an
engine pulls or loads.`,
		Example: `  vfix index redis:2.8.22
  vfix index --engine containerd docker.io/library/centos:6
  vfix index --watch`,
		Annotations: exits(`  0  success   1  an image could not be examined   2  usage error`),
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case opts.watch && len(args) > 0:
				return usagef("index", "--watch takes no images")
			case !opts.watch && len(args) == 0:
				return usagef("index", "want an IMAGE, or --watch")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runIndex(cmd.Context(), args, opts, out, e) },
	}
	f := cmd.Flags()
	f.StringVar(&opts.dir, "cache-dir", "", "the `DIR` of the cache (default: as in "+policy.ConfigFile+", or "+policy.DefaultCacheDir+")")
	f.StringVar(&opts.engine, "engine", "", "ask only this `ENGINE`: "+strings.Join(index.Engines(), ", ")+" (default: the first that has the image)")
	choices(cmd, "engine", index.Engines())
	f.BoolVar(&opts.watch, "watch", false, "examine each image that an engine gets, until vfix is ended")
	return cmd
}

func runIndex(ctx context.Context, args []string, opts IndexOptions, out *output, e engine) error {
	one := func(engine, image string) error {
		done, err := e.index(ctx, engine, image, opts.dir)
		if err != nil {
			return fmt.Errorf("%s: %w", image, err)
		}
		text := fmt.Sprintf("%s: %d of %d layers examined now, %d files with calls to the vsyscall page, %.1f s",
			image, done.New, done.Layers, done.Files, done.Seconds)
		if done.Unread > 0 {
			text += fmt.Sprintf("; %d files could not be examined", done.Unread)
		}
		out.Result(text)
		return out.Flush() // there may be hours until the next
	}
	if opts.watch {
		return e.watch(ctx, opts.engine, func(engine, image string) {
			if err := one(engine, image); err != nil && ctx.Err() == nil {
				out.Note("%v", err)
			}
		}, out.Note)
	}
	var all []error
	for _, image := range args {
		if err := one(opts.engine, image); err != nil {
			all = append(all, err)
		}
	}
	return hinterr.Among(errors.Join(all...), indexHints, "check the image's name as the engine prints it")
}

// indexImage examines the layers that an engine has of an image.
func indexImage(ctx context.Context, engine, image, dir string) (*ociruntime.Indexed, error) {
	layers, err := index.Layers(ctx, engine, image)
	if err != nil {
		return nil, err
	}
	return ociruntime.Index(layers, dir, runtimeOptions())
}

// indexHints are the hints if an image cannot be examined.
var indexHints = []hinterr.For{
	{Err: index.ErrNoEngine, Hint: "pull the image first, or name its engine with --engine"},
	{Err: store.ErrUnsound, Hint: "run vfix as its owner, or name another directory with --cache-dir"},
	{Err: fs.ErrPermission, Hint: "the cache and the engine's layers belong to root: run vfix as root"},
}
