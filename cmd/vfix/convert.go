// The verb convert: its options, and how they are read.

package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"vfix.dev/vfix/images"
	"vfix.dev/vfix/images/sources"
)

// ConvertOptions are the choices of vfix convert.
type ConvertOptions struct {
	workOptions
	dest       string
	entrypoint string
	command    string
	env        []string
	workdir    string
	user       string
}

func newConvertCommand(out *output, e engine) *cobra.Command {
	var opts ConvertOptions
	cmd := &cobra.Command{
		Use:   "convert [options] SOURCE -o DEST",
		Short: "Write an image in another format, unpatched",
		Long: `Read SOURCE in any supported format and write it to DEST, without patching it.
No file of the image is changed. Layers and config keep their bytes, and thus
their digests and the image ID, if the format of DEST allows it.

Formats that current engines refuse become OCI images: Docker schema 1
manifests, and tarballs of 'docker save' before version 1.10. Their history
becomes the config, as docker itself converts it.

A root filesystem (a directory, or the tarball of 'docker export') becomes an
image with one layer; set its command with --entrypoint and --cmd. Conversely,
-o dir:DIR writes the root filesystem of an image, for apptainer or chroot,
without config. Run by root, it keeps owners, extended attributes and devices;
otherwise the files are yours, and a warning names what is not kept. -o sif:FILE
writes the file that 'apptainer build' creates from the image.

Prints one line on stdout: the reference of the result. The same input gives the
same digest. For SOURCE and DEST see 'vfix help sources'.`,
		Example: `  vfix convert docker://old.example/app:1 -o oci:app    even a schema 1 manifest
  vfix convert old.tar -o oci-archive:new.tar           'docker save' of any age
  vfix convert oci:app -o docker-archive:app.tar:app:1  for docker load
  vfix convert rootfs.tar -o app:1 --cmd /bin/sh        to the local engine
  vfix convert x.sif -o dir:sandbox                     for apptainer or chroot
  vfix convert oci:app -o sif:app.sif                   for apptainer`,
		Annotations: exits(`  0  success: the reference is on stdout
  1  error: nothing exists under the final name, and stdout is empty
  2  usage error`),
		Args:              sourceArgs("convert", "SOURCE", 1),
		ValidArgsFunction: completeNames(e, noContainers),
		RunE:              func(cmd *cobra.Command, args []string) error { return runConvert(cmd.Context(), opts, args[0], out, e) },
	}
	f := cmd.Flags()
	f.StringVarP(&opts.dest, "output", "o", "", "write the image to `DEST`")
	f.StringVar(&opts.entrypoint, "entrypoint", "", "set the entrypoint of a root filesystem: a `COMMAND`, or a JSON list of its words")
	f.StringVar(&opts.command, "cmd", "", "set the command of a root filesystem: a `COMMAND`, or a JSON list of its words")
	f.StringArrayVar(&opts.env, "env", nil, "set an environment variable of a root filesystem, `NAME=VALUE`; can be repeated")
	f.StringVar(&opts.workdir, "workdir", "", "set the working `DIR` of a root filesystem")
	f.StringVar(&opts.user, "user", "", "set the `USER` that runs the command of a root filesystem")
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	return cmd
}

func (o *ConvertOptions) run() (r sources.RunConfig, err error) {
	if r.Entrypoint, err = commandWords("--entrypoint", o.entrypoint); err != nil {
		return r, err
	}
	if r.Cmd, err = commandWords("--cmd", o.command); err != nil {
		return r, err
	}
	for _, v := range o.env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return r, usagef("convert", "--env %s: want NAME=VALUE", v)
		}
	}
	r.Env, r.WorkingDir, r.User = o.env, o.workdir, o.user
	return r, nil
}

// commandWords splits a command: a JSON list is taken as it is, other text is split into words.
func commandWords(flag, s string) ([]string, error) {
	if !strings.HasPrefix(strings.TrimSpace(s), "[") {
		return strings.Fields(s), nil
	}
	var list []string
	if err := json.Unmarshal([]byte(s), &list); err != nil {
		return nil, usagef("convert", `%s %s: not a JSON list of strings, as in '["/bin/sh", "-c", "date"]'`, flag, s)
	}
	return list, nil
}

func runConvert(ctx context.Context, opts ConvertOptions, source string, out *output, e engine) error {
	switch opts.dest {
	case "":
		return usagef("convert", "no destination: use -o DEST")
	case "-":
		return usagef("convert", "-o -: cannot write the image to stdout, which is used for its reference")
	}
	if err := opts.begin("convert", out); err != nil {
		return err
	}
	run, err := opts.run()
	if err != nil {
		return err
	}
	if _, err := parseDest("convert", opts.dest); err != nil {
		return err
	}
	done, err := e.convert(ctx, source, images.ConvertOptions{
		Media: opts.read.Media, Dest: opts.dest, Run: run,
	})
	if err != nil {
		return err
	}
	return out.converted(opts, done)
}

// converted prints the reference of the result, and on stderr the parts that it lacks.
func (o *output) converted(opts ConvertOptions, done *images.Converted) error {
	for _, text := range done.Warnings {
		o.Warn("%s", text)
	}
	if opts.json() {
		return o.document("convert", false, *done)
	}
	o.Result(done.Reference)
	return nil
}
