package sources_test

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sylabs/sif/v2/pkg/sif"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/tests/imagetest"
)

// Either of the two sets of programs for a squashfs writes and reads the same files.
func TestSquashfsPrograms(t *testing.T) {
	imagetest.AsRoot(t, "files of other owners")
	imagetest.CleanTemp(t)
	owned := imagetest.FileM("bin/owned", []byte("x"))
	owned.Uid, owned.Gid, owned.Mode = 7, 8, 0o4751
	fifo, top := imagetest.FileM("fifo", nil), imagetest.DirM(".")
	fifo.Typeflag, top.Mode, top.Uid = tar.TypeFifo, 0o1751, 9
	img := imagetest.Stack(t, []imagetest.TestMember{top, imagetest.DirM("bin"), owned, fifo, imagetest.LinkM("pipe", "fifo"), imagetest.FileM("bin/one", nil), imagetest.LinkM("bin/same", "bin/one"), imagetest.SymM("s", "bin/owned"), imagetest.LinkM("symlink", "s"), imagetest.LinkM("third", "s")})
	var want string
	for _, tools := range []string{"tar2sqfs sqfs2tar", "mksquashfs unsquashfs"} {
		path := t.TempDir()
		for _, tool := range strings.Fields(tools) {
			at, err := exec.LookPath(tool)
			if err != nil {
				t.Skip(err)
			}
			if err := os.Symlink(at, filepath.Join(path, tool)); err != nil {
				t.Fatal(err)
			}
		}
		old := os.Getenv("PATH")
		os.Setenv("PATH", path)
		file, out := t.TempDir()+"/x.sif", t.TempDir()+"/root"
		imagetest.Put(t, "sif:"+file, media.Result{Image: img})
		src := imagetest.Open(t, "sif:"+file)
		os.Setenv("PATH", old)
		imagetest.Put(t, "dir:"+out, media.Result{Image: src.Image})
		// Its files need room for temporary ones.
		blob.Temp.SetLimit(1)
		_, err := sources.Open(t.Context(), "sif:"+file, media.Options{})
		blob.Temp.SetLimit(blob.DefaultTempLimit)
		imagetest.WantErr(t, err, hinterr.ErrTooLarge, file+": ")
		got := imagetest.FileListing(t, out)
		if want == "" {
			want = got
		}
		if got != want || !strings.Contains(got, "bin/owned u") || !strings.Contains(got, "fifo p") {
			t.Errorf("%s: got\n%s, want\n%s", tools, got, want)
		}
		for a, b := range map[string]string{"/bin/one": "/bin/same", "/fifo": "/pipe", "/s": "/symlink", "/symlink": "/third"} {
			if !os.SameFile(imagetest.Stat(t, out+a), imagetest.Stat(t, out+b)) {
				t.Errorf("%s: %s and %s are two files", tools, a, b)
			}
		}
		if fi := imagetest.Stat(t, out); fi.Mode() != os.ModeDir|os.ModeSticky|0o751 {
			t.Errorf("%s: got the root %v", tools, fi.Mode())
		}
	}
}

// How the programs are called, and what is said if they cannot do it: scripts in their place write what they get.
func TestSquashfsCalls(t *testing.T) {
	imagetest.CleanTemp(t)
	t.Setenv("SOURCE_DATE_EPOCH", "5")
	const args, env, fails = "echo \"$@\" >&2; exit 1", "/usr/bin/env | /usr/bin/grep -e ^SOURCE_ -e ^TZ= -e ^LC_ALL= | /usr/bin/sort >&2; exit 1", "exit 1"
	version := func(v, then string) string {
		return "[ \"$1\" != -version ] || { echo 'mksquashfs version " + v + " (2021/07/22)'; exit 1; }; " + then
	}
	asRoot := os.Geteuid() == 0
	read := "/image"
	if !asRoot {
		read = "/squashfs" // at the end of its path
	}
	const mksquashfs = "-tar -noappend -no-progress -quiet -comp gzip -b 131072 -root-mode 755 -root-uid 0 -root-gid 0 -root-time 0"
	for _, c := range []struct {
		name    string
		scripts map[string]string
		reads   bool
		kind    error
		says    []string
		notes   string
	}{
		{name: "none", kind: hinterr.ErrUnsupported, says: []string{"tar2sqfs and mksquashfs: not installed"}},
		{name: "none to read", reads: true, kind: hinterr.ErrUnsupported, says: []string{"sqfs2tar and unsquashfs: not installed"}},
		{name: "tar2sqfs", scripts: map[string]string{"tar2sqfs": args, "mksquashfs": fails}, kind: hinterr.ErrDamaged, says: []string{"tar2sqfs: --quiet --force --no-skip --compressor gzip --block-size 131072 /"}},
		{name: "the environment", scripts: map[string]string{"tar2sqfs": env}, kind: hinterr.ErrDamaged, says: []string{"tar2sqfs: LC_ALL=C; TZ=UTC"}},
		{name: "without a word", scripts: map[string]string{"tar2sqfs": fails}, says: []string{"tar2sqfs: exit status 1"}},
		{name: "killed", scripts: map[string]string{"tar2sqfs": "kill -9 $$"}, says: []string{"tar2sqfs: signal: killed"}},
		{name: "mksquashfs 4.4", scripts: map[string]string{"mksquashfs": version("4.4", args)}, kind: hinterr.ErrUnsupported, says: []string{"mksquashfs: cannot read tar streams, which needs version 4.5"}},
		{name: "mksquashfs 4.5", scripts: map[string]string{"mksquashfs": version("4.5.1", args)}, kind: hinterr.ErrDamaged, says: []string{"mksquashfs: - /", mksquashfs}, notes: "mksquashfs before 4.6"},
		{name: "mksquashfs 4.6", scripts: map[string]string{"mksquashfs": version("4.6", args)}, kind: hinterr.ErrDamaged, says: []string{mksquashfs}},
		{name: "mksquashfs 4.10", scripts: map[string]string{"mksquashfs": version("4.10", args)}, kind: hinterr.ErrDamaged, says: []string{mksquashfs}},
		{name: "mksquashfs 3.9", scripts: map[string]string{"mksquashfs": version("3.9", args)}, kind: hinterr.ErrUnsupported, says: []string{"needs version 4.5"}},
		{name: "mksquashfs of no version", scripts: map[string]string{"mksquashfs": args}, kind: hinterr.ErrDamaged, says: []string{mksquashfs}},
		{name: "sqfs2tar", reads: true, scripts: map[string]string{"sqfs2tar": args, "unsquashfs": fails}, kind: hinterr.ErrDamaged, says: []string{"sqfs2tar: --root-becomes . ", read}},
		{name: "unsquashfs", reads: true, scripts: map[string]string{"unsquashfs": args}, kind: hinterr.ErrDamaged, says: []string{"unsquashfs: -no-progress -dest /", "/root ", read}},
		{name: "no script", reads: true, scripts: map[string]string{"sqfs2tar": ""}, says: []string{"sqfs2tar: "}, notes: "sqfs2tar: cannot be confined here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, dir := t.TempDir(), t.TempDir()
			for name, script := range c.scripts {
				text := "#!/bin/sh\n" + script + "\n"
				if script == "" {
					text = "#!/nowhere\n"
				}
				if err := os.Chmod(imagetest.Write(t, filepath.Join(path, name), []byte(text)), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", path)
			if _, none := c.scripts["tar2sqfs"]; sources.WritesSquash() != (none || c.scripts["mksquashfs"] != "") {
				t.Errorf("writes a squashfs: got %v", sources.WritesSquash())
			}
			var notes imagetest.Notes
			o := media.Options{Options: registry.Options{Progress: &notes}}
			ref := media.Ref{Transport: media.SIF, Name: imagetest.Write(t, dir+"/x.sif", tinySIF(t, sif.FsSquash, "amd64", 0))}
			var err error
			if c.reads {
				_, err = sources.Open(t.Context(), ref.String(), o)
			} else {
				ref.Name = dir + "/new.sif"
				_, err = sources.Put(t.Context(), ref, media.Result{Image: imagetest.Stack(t, []imagetest.TestMember{imagetest.FileM("x", nil)})}, o)
			}
			imagetest.WantErr(t, err, c.kind, append(c.says, ref.Name+": ")...)
			if strings.Contains(c.says[0], "not installed") && !strings.Contains(hinterr.HintOf(err), "install squashfs-tools") {
				t.Errorf("got the hint %q", hinterr.HintOf(err))
			}
			if said := strings.Join(notes.Text, "\n"); asRoot && (c.notes == "" && said != "" || !strings.Contains(said, c.notes)) {
				t.Errorf("got the notes %q, want %q", said, c.notes)
			}
			if n := notes.Unfinished.Load(); n != 0 {
				t.Errorf("%d tasks have not ended", n)
			}
			imagetest.WantEmpty(t, dir, "x.sif")
		})
	}
}
