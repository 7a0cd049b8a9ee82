// Blobs that are needed twice, to be examined and to be copied to the destination, are fetched once.

package registry

import (
	"encoding/hex"
	"hash"
	"io"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vfix.dev/vfix/images/blob"
)

// keeper has the blobs that open images need again, by digest.
type keeper struct {
	mu    sync.Mutex
	blobs map[v1.Hash]*keptBlob
}

type keptBlob struct {
	users int // open images that need it, and readers of file
	begun bool
	file  *blob.Kept // nil until it is complete
}

// use counts one more user of a blob; end removes it.
func (k *keeper) use(h v1.Hash) (end func()) {
	b := k.blobs[h]
	b.users++
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if b.users--; b.users > 0 {
			return
		}
		delete(k.blobs, h)
		if b.file != nil {
			b.file.Close()
		}
	})
}

// Keep makes reads of blobs also store them, until release is called.
func (r *Network) Keep(digests []v1.Hash) (release func()) {
	k := &r.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	var ends []func()
	for _, h := range digests {
		if k.blobs[h] == nil {
			k.blobs[h] = &keptBlob{}
		}
		ends = append(ends, k.use(h))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// open returns a reader of a blob that is kept. If the blob should be kept but no reader does yet, it returns
// mine, for the caller to keep it.
func (k *keeper) open(h v1.Hash) (rc io.ReadCloser, mine *keptBlob) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.blobs[h]
	switch {
	case b == nil:
	case b.file != nil:
		return keptReader{b.file.Open(), k.use(h)}, nil
	case !b.begun:
		b.begun = true
		return nil, b
	}
	return nil, nil
}

// keptReader reads a kept blob, until Close.
type keptReader struct {
	io.ReadCloser
	end func()
}

func (r keptReader) Close() error {
	r.end()
	return r.ReadCloser.Close()
}

// keeping is a blob that is stored while it is read. If it cannot be stored, it is only read. A blob with another
// digest is not kept: another registry may have the right one.
type keeping struct {
	*resuming
	k    *keeper
	b    *keptBlob
	file *blob.Kept
	sum  hash.Hash
}

func (k *keeper) keep(r *resuming, b *keptBlob) io.ReadCloser {
	sum, err := v1.Hasher(r.digest.Algorithm)
	if err != nil {
		return r
	}
	file, err := blob.NewKept()
	if err != nil {
		return r
	}
	return &keeping{resuming: r, k: k, b: b, file: file, sum: sum}
}

func (r *keeping) Read(p []byte) (int, error) {
	n, err := r.resuming.Read(p)
	if r.file == nil {
		return n, err
	}
	r.sum.Write(p[:n])
	if _, werr := r.file.Write(p[:n]); werr != nil {
		r.drop()
	} else if err == io.EOF && hex.EncodeToString(r.sum.Sum(nil)) == r.digest.Hex {
		r.done()
	}
	return n, err
}

// done lets others open the blob, if it is still needed.
func (r *keeping) done() {
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	if r.b.users > 0 {
		r.b.file, r.file = r.file, nil
	}
}

// drop lets another reader keep the blob.
func (r *keeping) drop() {
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	if r.file != nil {
		r.file.Close()
		r.file, r.b.begun = nil, false
	}
}

func (r *keeping) Close() error {
	r.drop()
	return r.resuming.Close()
}
