// Package blob reads content that is named by its digest: manifests, and layers as checked, decompressed tar streams.
// It also keeps contents in temporary files, and edits JSON texts.
//
// This file verifies content while it is read, and copies it.
package blob

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/progress"
)

// Limits on what is held in memory, in bytes. distribution refuses manifests above 4 MiB
// (registry/handlers/manifests.go, maxManifestBodySize) and so does containerd; no tool limits a config, and the
// largest known have some hundred KiB.
const (
	MaxManifest = 4 << 20
	MaxConfig   = 16 << 20
)

// CopyBuffer is how much is copied between two looks at the context, in bytes.
const CopyBuffer = 256 << 10

// Verified wraps rc so that reading to its end proves its digest and, if size >= 0, its length. Not one byte beyond
// size is handed on. What is so verified already stays as it is.
func Verified(rc io.ReadCloser, h v1.Hash, size int64) (io.ReadCloser, error) {
	if v, ok := rc.(*verifier); ok && v.want == h && v.size == size {
		return rc, nil
	}
	sum, err := v1.Hasher(h.Algorithm)
	if err != nil {
		rc.Close()
		return nil, fmt.Errorf("blob %v: %w", h, err)
	}
	return &verifier{ReadCloser: rc, sum: sum, want: h, size: size}, nil
}

type verifier struct {
	io.ReadCloser
	sum  hash.Hash
	want v1.Hash
	size int64 // < 0: not known
	got  int64
	err  error
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.ReadCloser.Read(p)
	v.got += int64(n)
	if v.size >= 0 && v.got > v.size {
		n -= int(v.got - v.size)
		err = hinterr.Damaged("blob %v: more than %d bytes", v.want, v.size)
	}
	v.sum.Write(p[:n])
	if err == io.EOF {
		err = v.end()
	}
	v.err = err
	return n, err
}

// WriteTo makes io.Copy copy in pieces of CopyBuffer bytes.
func (v *verifier) WriteTo(w io.Writer) (int64, error) {
	return CopyTo(context.Background(), w, struct{ io.Reader }{v}, nil)
}

// end judges what was read.
func (v *verifier) end() error {
	if v.size >= 0 && v.got != v.size {
		return hinterr.Damaged("blob %v: got %d bytes, want %d", v.want, v.got, v.size)
	}
	if got := hex.EncodeToString(v.sum.Sum(nil)); got != v.want.Hex {
		return hinterr.Damaged("blob %v: content does not match its digest: got %s:%s of its %d bytes", v.want, v.want.Algorithm, got, v.got)
	}
	return io.EOF
}

// Reading is an io.Reader that ends with the context's error and reports its progress; T may be nil.
type Reading struct {
	Ctx context.Context
	io.Reader
	T progress.Task
}

func (r Reading) Read(p []byte) (int, error) {
	if err := r.Ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(p)
	if r.T != nil {
		r.T.Add(int64(n))
	}
	return n, err
}

// WriteTo makes io.Copy copy in pieces of CopyBuffer bytes.
func (r Reading) WriteTo(w io.Writer) (int64, error) {
	// Struct literals without ReadFrom and WriteTo, which would bypass Read.
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, CopyBuffer))
}

// CopyTo copies r to w until its end, the context's end or an error.
func CopyTo(ctx context.Context, w io.Writer, r io.Reader, t progress.Task) (int64, error) {
	return Reading{ctx, r, t}.WriteTo(w)
}

// CountingReader counts the bytes read and keeps the error that ended reading.
type CountingReader struct {
	R   io.Reader
	N   int64
	Err error // not io.EOF
}

func (c *CountingReader) Read(p []byte) (int, error) {
	n, err := c.R.Read(p)
	c.N += int64(n)
	if err != nil && err != io.EOF {
		c.Err = err
	}
	return n, err
}

// OpenRegular opens a regular file, or a symlink to one, and nothing else: opening a FIFO would wait for ever. A missing
// one is an ErrNotFound.
func OpenRegular(path string) (*os.File, int64, error) {
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = hinterr.Errorf(hinterr.ErrNotFound, "no file %s", filepath.Base(path))
	}
	if err != nil {
		return nil, 0, err
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, hinterr.Damaged("%s: not a regular file but %s", path, fi.Mode().Type())
	}
	f, err := os.Open(path)
	return f, fi.Size(), err
}

// Piped runs write and read at the two ends of a pipe. If write fails, its error is returned, as read only saw a
// broken stream then, unless the reason is that read had stopped.
func Piped(write func(io.Writer) error, read func(io.Reader) error) error {
	pr, pw := io.Pipe()
	var g errgroup.Group
	g.Go(func() error {
		err := write(pw)
		pw.CloseWithError(err)
		return err
	})
	err := read(pr)
	pr.CloseWithError(errReadEnded) // for a writer that still waits
	if werr := g.Wait(); werr != nil && !errors.Is(werr, errReadEnded) {
		return werr
	}
	return err
}

var errReadEnded = errors.New("the stream's reader is closed")

// ShortHash is a hash as messages write it: the algorithm and twelve digits, as docker does.
func ShortHash(h v1.Hash) string {
	const digits = 12
	h.Hex = h.Hex[:min(len(h.Hex), digits)]
	return h.String()
}
