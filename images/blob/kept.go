// A blob that is kept while it is read, so that it need not be fetched again.

package blob

import (
	"io"
	"os"
)

// Kept is a temporary file with a blob.
type Kept struct {
	f     *os.File
	n     int64 // bytes
	taken int64 // of Temp
}

// keptShare is the part of Temp that blobs get: without them nothing fails, without the rest
// reading does.
const keptShare = 2

// NewKept begins an empty one.
func NewKept() (*Kept, error) {
	f, err := TempFile()
	return &Kept{f: f}, err
}

// Write appends. It errs where there is no room; then the blob is to be closed.
func (k *Kept) Write(p []byte) (int, error) {
	n := int64(len(p))
	if (Temp.used.Load()+n)*keptShare > Temp.limit.Load() {
		return 0, io.ErrShortWrite
	}
	if err := Temp.take(n); err != nil {
		return 0, err
	}
	k.taken += n
	w, err := k.f.WriteAt(p, k.n)
	k.n += int64(w)
	return w, err
}

// Size is how many bytes there are.
func (k *Kept) Size() int64 { return k.n }

// Open reads it from its beginning, not verified.
func (k *Kept) Open() io.ReadCloser { return io.NopCloser(io.NewSectionReader(k.f, 0, k.n)) }

// Close removes it. Whoever still reads it gets an error.
func (k *Kept) Close() {
	RemoveTemp(k.f)
	Temp.give(k.taken)
	k.taken = 0
}
