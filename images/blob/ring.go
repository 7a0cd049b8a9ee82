// A stream that is read ahead and hashed while its reader uses it.

package blob

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/internal/hinterr"
)

// ringChunks is how many buffers a ring has: one being filled, one being read, one between them.
const ringChunks = 3

// hashRing reads a stream ahead, in a goroutine, and hashes each buffer before its reader uses
// it: nothing is copied for the hash, and decompressing runs beside hashing and examining. The
// parts that the reader skips (Seek) cost nothing more.
type hashRing struct {
	free   chan *chunk
	chunks chan *chunk
	quit   chan struct{}

	alg string // of the hash, as in a digest
	h   hash.Hash
	err error // why the stream ended, io.EOF for its end; valid once chunks is closed

	cur     *chunk // being read
	at      int    // in cur
	pos     int64  // in the stream
	stopped bool
}

// chunk is a buffer on its way.
type chunk struct {
	buf []byte
	n   int
}

// newHashRing hashes by the algorithm of the digest that is expected: sha256, or sha512 (image-spec, descriptor.md).
func newHashRing(src io.Reader, want v1.Hash) *hashRing {
	r := &hashRing{
		free: make(chan *chunk, ringChunks), chunks: make(chan *chunk, ringChunks), quit: make(chan struct{}),
		alg: "sha256", h: sha256.New(),
	}
	if want.Algorithm == "sha512" {
		r.alg, r.h = want.Algorithm, sha512.New()
	}
	for range ringChunks {
		r.free <- &chunk{buf: make([]byte, CopyBuffer)}
	}
	go r.fill(src)
	return r
}

func (r *hashRing) fill(src io.Reader) {
	defer close(r.chunks)
	for r.err == nil {
		var c *chunk
		select {
		case c = <-r.free:
		case <-r.quit:
			r.err = errClosed
			return
		}
		c.n, r.err = Fill(src, c.buf)
		r.chunks <- c
	}
}

// more makes sure that there is something left in cur.
func (r *hashRing) more() error {
	for r.cur == nil || r.at == r.cur.n {
		if r.cur != nil {
			r.free <- r.cur
		}
		var ok bool
		if r.cur, ok = <-r.chunks; !ok {
			return r.err
		}
		r.h.Write(r.cur.buf[:r.cur.n])
		r.at = 0
	}
	return nil
}

// Peek returns the next n bytes, or fewer at the end of the stream or of a buffer.
func (r *hashRing) Peek(n int) []byte {
	if r.more() != nil {
		return nil
	}
	return r.cur.buf[r.at:min(r.at+n, r.cur.n)]
}

func (r *hashRing) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := r.more(); err != nil {
		return 0, err
	}
	n := copy(p, r.cur.buf[r.at:r.cur.n])
	r.at += n
	r.pos += int64(n)
	return n, nil
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
		n := int(min(off, int64(r.cur.n-r.at)))
		r.at += n
		r.pos += int64(n)
		off -= int64(n)
	}
	return r.pos, nil
}

// drain reads what is left; nil says that the stream came to its end.
func (r *hashRing) drain() error {
	for {
		if err := r.more(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		r.pos += int64(r.cur.n - r.at)
		r.at = r.cur.n
	}
}

// sum returns the digest of the stream. It may be called once drain returned nil.
func (r *hashRing) sum() v1.Hash {
	return v1.Hash{Algorithm: r.alg, Hex: hex.EncodeToString(r.h.Sum(nil))}
}

// stop ends the goroutine. The source must have ended or been closed: a Read of it that
// is under way is waited for.
func (r *hashRing) stop() {
	if r.stopped {
		return
	}
	r.stopped = true
	close(r.quit)
	for range r.chunks {
	}
}
