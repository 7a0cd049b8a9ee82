// The verb list: lists of images for rebuild and scan.

package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/cmd/vfix/screen"
	"vfix.dev/vfix/images/lists"
	"vfix.dev/vfix/internal/textutil"
)

// ListOptions are the choices of vfix list.
type ListOptions struct {
	workOptions
	match []string
	newer string
}

func newListCommand(out *output, e engine) *cobra.Command {
	var opts ListOptions
	cmd := &cobra.Command{
		Use:  "list [options] [docker://HOST[/PREFIX] | -]...",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runList(cmd.Context(), opts, args, cmd.Flags().Changed("platform"), out, e)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&opts.match, "match", nil, "list only images whose name matches this `PATTERN`, such as 'team/*:1.*'; * matches any text; can be repeated")
	f.StringVar(&opts.newer, "newer-than", "", "list only images created since this `TIME`: a number of days such as 90d, or a date such as 2016-01-31; reads the config of each image")
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	opts.addJobs(cmd)
	return cmd
}

// since reads the time of --newer-than: days before now, or a date.
func since(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, usagef("list", "--newer-than %s: want a number of days such as 90d, or a date such as 2016-01-31", text)
	}
	return t, nil
}

// check reports errors in the arguments, and in the options used with them.
func (o *ListOptions) check(args []string, platformSet bool) error {
	for _, source := range args {
		registry := strings.HasPrefix(source, "docker://")
		switch {
		case source != "-" && source != lists.Engines && !registry:
			return usagef("list", "%s: want docker://HOST, docker://HOST/PREFIX, or - for stdin", source)
		case !registry && platformSet:
			return usagef("list", "--platform works only with docker://HOST")
		case source == "-" && o.newer != "":
			return usagef("list", "--newer-than does not work with -: the output of kubectl does not contain the age of images")
		}
	}
	return nil
}

func runList(ctx context.Context, opts ListOptions, args []string, platformSet bool, out *output, e engine) error {
	if err := opts.begin("list", out); err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{lists.Engines}
	}
	if err := opts.check(args, platformSet); err != nil {
		return err
	}
	o := lists.ListOptions{Media: opts.read.Media, Jobs: opts.read.Jobs, Platform: platformSet, Stdin: os.Stdin}
	for _, m := range opts.match {
		o.Match = append(o.Match, textutil.ImagePattern(m))
	}
	var err error
	if o.Newer, err = since(opts.newer, time.Now()); err != nil {
		return err
	}
	doc, n := listJSON{}, 0
	o.Each = func(i lists.Listed) error { // printed as they are found, or kept for the JSON
		if n++; opts.json() {
			doc.Images = append(doc.Images, listedJSON{i.Source, timeIf(i.Created)})
		} else {
			out.Result(i.Source)
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
	if n == 0 && errors.Join(errs...) != nil {
		return errors.Join(errs...) // not "0 images", which is not known
	}
	out.Note("%s", screen.Count(n, "image"))
	if opts.json() {
		errs = append(errs, out.document("list", false, doc))
	}
	return errors.Join(errs...)
}

type listJSON struct {
	Images []listedJSON `json:"images"`
}

type listedJSON struct {
	Source  string `json:"source"`
	Created string `json:"created"`
}
