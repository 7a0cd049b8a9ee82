// A stream that is read ahead and hashed while its reader uses it.

package blob

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"math"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/filecopy"
	"vfix.dev/vfix/internal/hinterr"
)

// ringChunks is how many buffers a ring has: one being filled, one being read, one between them.
const ringChunks = 3

// hashRing reads a stream ahead, in a goroutine, and hashes each buffer before its reader uses
// it: nothing is copied for the hash, and decompressing runs in parallel with hashing and examining. The
// parts that the reader skips (Seek) cost nothing more.
type hashRing struct {
	free, full chan []byte
	quit       chan struct{}

	alg string // of the hash, as in a digest
	h   hash.Hash
	err error // why the stream ended, io.EOF for its end; valid once full is closed

	cur  []byte // being read
	left []byte // of it
	pos  int64  // in the stream
}

// newHashRing hashes by the algorithm of the digest that is expected: sha256, or sha512 (image-spec, descriptor.md).
func newHashRing(src io.Reader, want v1.Hash) *hashRing {
	r := &hashRing{
		free: make(chan []byte, ringChunks), full: make(chan []byte, ringChunks), quit: make(chan struct{}),
		alg: "sha256", h: sha256.New(),
	}
	if want.Algorithm == "sha512" {
		r.alg, r.h = want.Algorithm, sha512.New()
	}
	for range ringChunks {
		r.free <- make([]byte, CopyBuffer)
	}
	go r.fill(src)
	return r
}

func (r *hashRing) fill(src io.Reader) {
	defer close(r.full)
	for r.err == nil {
		select {
		case buf := <-r.free:
			var n int
			n, r.err = filecopy.Fill(src, buf[:CopyBuffer])
			r.full <- buf[:n]
		case <-r.quit:
			r.err = errClosed
		}
	}
}

// more makes sure that cur has bytes left.
func (r *hashRing) more() error {
	for len(r.left) == 0 {
		if r.cur != nil {
			r.free <- r.cur
		}
		var ok bool
		if r.cur, ok = <-r.full; !ok {
			return r.err
		}
		r.h.Write(r.cur)
		r.left = r.cur
	}
	return nil
}

// skip passes over at most n bytes of what is left, and returns how many.
func (r *hashRing) skip(n int64) int64 {
	n = min(n, int64(len(r.left)))
	r.left = r.left[n:]
	r.pos += n
	return n
}

// Peek returns the next n bytes, or fewer at the end of the stream or of a buffer.
func (r *hashRing) Peek(n int) []byte {
	if r.more() != nil {
		return nil
	}
	return r.left[:min(n, len(r.left))]
}

func (r *hashRing) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := r.more(); err != nil {
		return 0, err
	}
	return int(r.skip(int64(copy(p, r.left)))), nil
}

// Seek skips forward; that is all it can do. archive/tar asks for nothing else. It stops at
// the end of the stream without an error: the next Read has it.
func (r *hashRing) Seek(off int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || off < 0 {
		return 0, hinterr.Errorf(hinterr.ErrUnsupported, "a stream cannot be read backwards")
	}
	for off > 0 {
		if err := r.more(); err == io.EOF {
			break
		} else if err != nil {
			return 0, err
		}
		off -= r.skip(off)
	}
	return r.pos, nil
}

// drain reads the rest; nil means that the stream reached its end.
func (r *hashRing) drain() error {
	_, err := r.Seek(math.MaxInt64, io.SeekCurrent)
	return err
}

// sum returns the digest of the stream. It may be called once drain returned nil.
func (r *hashRing) sum() v1.Hash {
	return v1.Hash{Algorithm: r.alg, Hex: hex.EncodeToString(r.h.Sum(nil))}
}

// stop ends the goroutine; it is called once. The source must have ended or been closed: a Read of it that
// is under way is waited for.
func (r *hashRing) stop() {
	close(r.quit)
	for range r.full {
	}
}
