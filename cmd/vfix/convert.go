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
	printOptions
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
		Long: `Does the format step of 'vfix rebuild' alone: reads SOURCE in whatever format it
is in and writes it to DEST. No file of the image is changed; layers and config
keep their bytes, and with them their digests and the image ID, wherever the
format of DEST can have them.

What current engines refuse to read is made an OCI image: Docker schema 1
manifests, and the tarballs of 'docker save' before 1.10. Their history becomes
the config, as docker itself made one of it.

A root filesystem (a folder, the tarball of 'docker export') becomes an image of
one layer. Its command is what you say: --entrypoint and --cmd. The other way,
-o dir:FOLDER writes an image's root filesystem, for apptainer or chroot: no
config, no devices, no extended attributes; root writes owners and setuid bits.

On stdout stands one line, the reference of the result. The same input gives the
same digest. SOURCE and DEST are written as in 'vfix help sources'.`,
		Example: `  vfix convert docker://old.example/app:1 -o oci:app    a schema 1 manifest, too
  vfix convert old.tar -o oci-archive:new.tar           'docker save' of any age
  vfix convert oci:app -o docker-archive:app.tar:app:1  for docker load
  vfix convert rootfs.tar -o app:1 --cmd /bin/sh        into the local daemon
  vfix convert x.sif -o dir:sandbox                     a folder for apptainer`,
		Annotations: exits(`  0  done: the reference is on stdout
  1  an error: nothing is under the final name, stdout is empty
  2  usage`),
		Args:              sourceArgs("convert", "SOURCE", 1),
		ValidArgsFunction: completeNames(e, noContainers),
		RunE:              func(cmd *cobra.Command, args []string) error { return runConvert(cmd.Context(), opts, args[0], out, e) },
	}
	f := cmd.Flags()
	f.StringVarP(&opts.dest, "output", "o", "", "write the image to `DEST`")
	f.StringVar(&opts.entrypoint, "entrypoint", "", "give a root filesystem this entrypoint: a `COMMAND`, or a JSON list of its words")
	f.StringVar(&opts.command, "cmd", "", "give a root filesystem this command: a `COMMAND`, or a JSON list of its words")
	f.StringArrayVar(&opts.env, "env", nil, "set a variable in a root filesystem's config, `NAME=VALUE`; may be given again")
	f.StringVar(&opts.workdir, "workdir", "", "start in this `FOLDER` of a root filesystem")
	f.StringVar(&opts.user, "user", "", "run a root filesystem's command as this `USER`")
	opts.printOptions.add(cmd)
	opts.addMedia(cmd)
	return cmd
}

// run is what the options say of how to run the image.
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

// commandWords takes a command apart: a JSON list is one, anything else is words.
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
		return usagef("convert", "no -o given: say where the image goes")
	case "-":
		return usagef("convert", "-o -: the image cannot go to stdout, which carries its reference")
	}
	platform, err := opts.workOptions.check("convert")
	if err != nil {
		return err
	}
	if err := opts.printOptions.check("convert"); err != nil {
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
		Media: opts.media(platform, out.startProgress(ctx, opts.progress)), Dest: opts.dest, Run: run,
	})
	if err != nil {
		return err
	}
	out.endProgress()
	return out.converted(opts, done)
}
