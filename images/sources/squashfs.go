// squashfs, written and read by the usual programs: squashfs-tools, which apptainer itself needs, or
// squashfs-tools-ng. vfix exchanges a tar stream with them, so owners and modes are kept whichever user runs vfix.

package sources

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/atomicfile"
	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/media"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/internal/progress"
)

// squashSuper is the super block of a squashfs (kernel, Documentation/filesystems/squashfs.rst and
// fs/squashfs/squashfs_fs.h, struct squashfs_super_block).
type squashSuper struct {
	mkfsTime    uint32 // seconds since 1970
	BlockSize   uint32 // bytes
	Compression string // as in mksquashfs -comp
}

// squashCompressions are the names of the super block's compression IDs.
var squashCompressions = map[uint16]string{1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}

// Offsets in the super block, in bytes; all numbers are little endian.
const (
	squashMagic       = "hsqs"
	squashTimeAt      = 8
	squashBlockAt     = 12
	squashCompressAt  = 20
	squashSuperLen    = 96
	squashMaxBlock    = 1 << 20 // SQUASHFS_FILE_MAX_SIZE
	squashMinBlock    = 4096
	squashUnsquashDir = "root"
)

func readSquashSuper(r io.ReaderAt) (squashSuper, error) {
	var b [squashSuperLen]byte
	if _, err := r.ReadAt(b[:], 0); err != nil || string(b[:len(squashMagic)]) != squashMagic {
		return squashSuper{}, hinterr.Damaged("no squashfs found")
	}
	s := squashSuper{
		mkfsTime:  binary.LittleEndian.Uint32(b[squashTimeAt:]),
		BlockSize: binary.LittleEndian.Uint32(b[squashBlockAt:]),
	}
	id := binary.LittleEndian.Uint16(b[squashCompressAt:])
	s.Compression = squashCompressions[id]
	switch {
	case s.Compression == "":
		return s, hinterr.Errorf(hinterr.ErrUnsupported, "squashfs: unknown compression %d", id)
	case s.BlockSize < squashMinBlock || s.BlockSize > squashMaxBlock || s.BlockSize&(s.BlockSize-1) != 0:
		return s, hinterr.Damaged("squashfs: blocks of %d bytes", s.BlockSize)
	}
	return s, nil
}

// maxUnpacked is the maximum total size of the files of a squashfs, in bytes. Zeros need no space on the disk.
const maxUnpacked = 1 << 40

// WritesSquash reports whether a tool that writes a squashfs is installed.
func WritesSquash() bool {
	return slices.ContainsFunc([]string{"tar2sqfs", "mksquashfs"}, func(tool string) bool {
		_, err := exec.LookPath(tool)
		return err == nil
	})
}

func errNoSquashTools(names string) error {
	return hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "squashfs: %s: not installed", names), "apt-get install squashfs-tools, or dnf install squashfs-tools")
}

// unsquash writes the files of the squashfs in a file, as a tar stream. sqfs2tar keeps owners without root,
// unsquashfs only as root.
func unsquash(ctx context.Context, w io.Writer, file string, o media.Options) error {
	if tool, err := exec.LookPath("sqfs2tar"); err == nil {
		return runReader(ctx, w, o, file, "", func(file, _ string) []string {
			return []string{tool, "--root-becomes", ".", file}
		})
	}
	tool, err := exec.LookPath("unsquashfs")
	if err != nil {
		return errNoSquashTools("sqfs2tar and unsquashfs")
	}
	dir, remove, err := atomicfile.TempDir()
	if err != nil {
		return err
	}
	defer remove()
	if os.Geteuid() != 0 {
		progress.Note(o.Progress, "without root unsquashfs gives every file to the user: install sqfs2tar (squashfs-tools-ng) to keep owners")
	}
	err = runReader(ctx, io.Discard, o, file, dir, func(file, dir string) []string {
		return []string{tool, "-no-progress", "-dest", filepath.Join(dir, squashUnsquashDir), file}
	})
	if err != nil {
		return err
	}
	root := filepath.Join(dir, squashUnsquashDir)
	top, err := topMeta(root)
	if err != nil {
		return err
	}
	// sqfs2tar has the root directory in its stream as well.
	tw := tar.NewWriter(w)
	entry := contents.Entry{Kind: contents.KindDir, Meta: *top}
	if err := errors.Join(tw.WriteHeader(entry.Header(".")), tw.Flush()); err != nil {
		return err
	}
	return writeDir(ctx, w, root, o)
}

// The paths of the image and the directory in a confined program's root.
const (
	confinedImage = "/image"
	confinedDir   = "/out"
)

var errNotConfined = errors.New("cannot be confined here")

// runReader runs a program that reads the squashfs in a file, confined if it would be root. args returns its
// command line from its paths for that file and for the directory that it writes to.
func runReader(ctx context.Context, out io.Writer, o media.Options, file, dir string,
	args func(file, dir string) []string) error {
	if confined() {
		cmd, said := newTool(ctx, nil, out, args(confinedImage, confinedDir))
		err := runConfined(cmd, file, dir)
		if !errors.Is(err, errNotConfined) {
			return toolError(ctx, cmd, said, err)
		}
		progress.Note(o.Progress, "%s: %v", filepath.Base(cmd.Path), err)
	}
	words := args(file, dir)
	return runTool(ctx, nil, out, words[0], words[1:]...)
}

// writer is a program that makes a squashfs from a tar stream: tar2sqfs, or a mksquashfs with its version.
type writer struct {
	path    string
	version int // of mksquashfs; 0: tar2sqfs
}

func squashWriter(ctx context.Context) (w writer, err error) {
	if w.path, err = exec.LookPath("tar2sqfs"); err == nil {
		return w, nil
	}
	if w.path, err = exec.LookPath("mksquashfs"); err != nil {
		return w, errNoSquashTools("tar2sqfs and mksquashfs")
	}
	if w.version = mksquashfsVersion(ctx, w.path); w.version < mksquashfsTar {
		return w, hinterr.With(hinterr.Errorf(hinterr.ErrUnsupported, "squashfs: %s: cannot read tar streams, which needs version 4.5", w.path),
			"install tar2sqfs: apt-get install squashfs-tools-ng, or dnf install squashfs-tools-ng")
	}
	return w, nil
}

// squash makes a squashfs from a tar stream, in the form of like. With tar2sqfs, and with mksquashfs since 4.6,
// equal streams give equal bytes. root is the root directory itself, nil if it is not known.
func squash(ctx context.Context, r io.Reader, file string, like squashSuper, root *contents.Entry, o media.Options) error {
	block := strconv.FormatUint(uint64(like.BlockSize), 10)
	tool, err := squashWriter(ctx)
	if err != nil {
		return err
	}
	args := []string{"--quiet", "--force", "--no-skip", "--compressor", like.Compression, "--block-size", block, file}
	if tool.version > 0 {
		args = []string{"-", file, "-tar", "-noappend", "-no-progress", "-quiet", "-comp", like.Compression, "-b", block}
		if root != nil {
			m := root.Meta
			args = append(args, "-root-mode", fmt.Sprintf("%o", m.Mode), "-root-uid", fmt.Sprint(m.UID), "-root-gid", fmt.Sprint(m.GID),
				"-root-time", strconv.FormatInt(max(m.Mtime.Unix(), 0), 10))
		}
	}
	if tool.version > 0 && tool.version < mksquashfsRoot {
		progress.Note(o.Progress, "mksquashfs before 4.6 gives the root directory to root, with the current time: install tar2sqfs (squashfs-tools-ng) for reproducible results")
	}
	if err := runTool(ctx, r, io.Discard, tool.path, args...); err != nil {
		return err
	}
	return like.keepTime(file)
}

// Versions of mksquashfs, as 100 times the first number and the second (CHANGES of squashfs-tools).
const (
	mksquashfsTar  = 405 // reads tar streams
	mksquashfsRoot = 406 // takes the owner and time of the root directory from them
)

var mksquashfsSays = lazy.Regexp(`mksquashfs version ([0-9]+)\.([0-9]+)`)

// mksquashfsVersion returns the program's version; the newest one if its output has none.
func mksquashfsVersion(ctx context.Context, tool string) int {
	var out bytes.Buffer
	runTool(ctx, nil, &out, tool, "-version") // exit status 1 in some versions
	m := mksquashfsSays().FindStringSubmatch(out.String())
	if m == nil {
		return mksquashfsRoot
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major*100 + minor
}

// keepTime sets the creation time of the old squashfs on a new one, as both programs set others.
func (s squashSuper) keepTime(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], s.mkfsTime)
	_, err = f.WriteAt(b[:], squashTimeAt)
	return errors.Join(err, f.Close())
}

// runTool runs a program to its end. Its stderr becomes the error.
func runTool(ctx context.Context, in io.Reader, out io.Writer, tool string, args ...string) error {
	cmd, said := newTool(ctx, in, out, append([]string{tool}, args...))
	blob.Apart(cmd)
	return toolError(ctx, cmd, said, cmd.Run())
}

// newTool returns a command, and the buffer for its stderr.
func newTool(ctx context.Context, in io.Reader, out io.Writer, words []string) (*exec.Cmd, *blob.HeadBuffer) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	said := &blob.HeadBuffer{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, said
	cmd.WaitDelay = blob.ChildDelay
	// The result must not depend on the environment.
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SOURCE_DATE_EPOCH=") })
	cmd.Env = append(env, "TZ=UTC", "LC_ALL=C")
	return cmd, said
}

// toolError is the error of a program that has ended.
func toolError(ctx context.Context, cmd *exec.Cmd, said *blob.HeadBuffer, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	var exit *exec.ExitError
	if text := strings.TrimSpace(said.String()); errors.As(err, &exit) && text != "" {
		return hinterr.Damaged("%s: %s", filepath.Base(cmd.Path), strings.ReplaceAll(text, "\n", "; "))
	}
	return fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
}

// plainTar is a tar stream in a temporary file.
type plainTar struct {
	*blob.Kept
	diffID v1.Hash
}

func keepTar(write func(io.Writer) error) (p plainTar, err error) {
	err = blob.Piped(write, func(r io.Reader) (err error) {
		sum := sha256.New()
		if p.Kept, err = blob.Keep(io.TeeReader(io.LimitReader(r, maxUnpacked+1), sum)); err != nil {
			return err
		}
		if p.diffID = blob.Sha256Hash(sum); p.N > maxUnpacked {
			err = hinterr.Damaged("more than %d bytes of files", int64(maxUnpacked))
		}
		return err
	})
	if err != nil && p.Kept != nil {
		p.Close()
		p.Kept = nil
	}
	return p, err
}
