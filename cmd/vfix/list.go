// The verb list: lists of images for rebuild and scan.

package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/internal/textutil"
)

func newListCommand(out *output, e engine) *cobra.Command {
	var opts workOptions
	var match []string
	cmd := newVerb("list [options] [docker://HOST[/PREFIX] | -]...", cobra.ArbitraryArgs, func(ctx context.Context, args []string) error {
		return runList(ctx, &opts, match, args, out, e)
	})
	cmd.Flags().StringArrayVar(&match, "match", nil, "list only images whose name matches this `PATTERN`, such as 'team/*:1.*'; * matches any text; can be repeated")
	opts.add(cmd, out, withRegistry)
	return cmd
}

func runList(ctx context.Context, opts *workOptions, match, args []string, out *output, e engine) error {
	if len(args) == 0 {
		args = []string{lists.Engines}
	}
	for _, source := range args {
		if source != "-" && source != lists.Engines && !strings.HasPrefix(source, "docker://") {
			return usagef("%s: want docker://HOST, docker://HOST/PREFIX, or - for stdin", source)
		}
	}
	o := lists.ListOptions{Media: opts.read.Media, Stdin: os.Stdin}
	for _, m := range match {
		o.Match = append(o.Match, textutil.ImagePattern(m))
	}
	doc := listJSON{}
	o.Each = func(image string) error { // printed as they are found, or kept for the JSON
		if doc.Images = append(doc.Images, listedJSON{image}); !out.json {
			out.Result(image)
		}
		return nil
	}
	var errs []error
	for _, source := range args {
		errs = append(errs, e.list(ctx, source, o))
		if ctx.Err() != nil {
			break
		}
	}
	if len(doc.Images) == 0 && errors.Join(errs...) != nil {
		return errors.Join(errs...) // not "0 images", which is not known
	}
	out.Note("%s", screen.Count(len(doc.Images), "image"))
	return errors.Join(append(errs, out.show(false, doc, func(screen.Stream) {}))...)
}

type listJSON struct {
	Images []listedJSON `json:"images"`
}

type listedJSON struct {
	Source string `json:"source"`
}
