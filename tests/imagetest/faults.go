// Images of which any call may fail once.

package imagetest

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

var (
	ErrFault = errors.New("the disk is gone")
	ErrFull  = errors.New("full")
)

// Room is an io.Writer that takes so many bytes, and then no more.
type Room struct{ Left, Took int }

func (r *Room) Write(b []byte) (int, error) {
	n := min(len(b), r.Left)
	r.Left, r.Took = r.Left-n, r.Took+n
	if n < len(b) {
		return n, ErrFull
	}
	return n, nil
}

// Faults counts calls, of which one fails. It is also the Progress of what is tested.
type Faults struct {
	Notes
	calls, at atomic.Int64
}

// Err is the fault if it is the turn of this call.
func (f *Faults) Err() error {
	if f.calls.Add(1) == f.at.Load() {
		return ErrFault
	}
	return nil
}

// or is a result, or the fault.
func or[T any](f *Faults, get func() (T, error)) (T, error) {
	if err := f.Err(); err != nil {
		var none T
		return none, err
	}
	return get()
}

// FaultyImage is an image of which any call may fail, and any read of a layer.
type FaultyImage struct {
	v1.Image
	F *Faults
}

func (i FaultyImage) MediaType() (types.MediaType, error) { return or(i.F, i.Image.MediaType) }
func (i FaultyImage) ConfigName() (v1.Hash, error)        { return or(i.F, i.Image.ConfigName) }
func (i FaultyImage) ConfigFile() (*v1.ConfigFile, error) { return or(i.F, i.Image.ConfigFile) }
func (i FaultyImage) RawConfigFile() ([]byte, error)      { return or(i.F, i.Image.RawConfigFile) }
func (i FaultyImage) Digest() (v1.Hash, error)            { return or(i.F, i.Image.Digest) }
func (i FaultyImage) Manifest() (*v1.Manifest, error)     { return or(i.F, i.Image.Manifest) }
func (i FaultyImage) RawManifest() ([]byte, error)        { return or(i.F, i.Image.RawManifest) }
func (i FaultyImage) Layers() (all []v1.Layer, err error) {
	layers, err := or(i.F, i.Image.Layers)
	for _, l := range layers {
		all = append(all, faultyLayer{l, i.F})
	}
	return all, err
}

type faultyLayer struct {
	v1.Layer
	f *Faults
}

func (l faultyLayer) Digest() (v1.Hash, error)             { return or(l.f, l.Layer.Digest) }
func (l faultyLayer) DiffID() (v1.Hash, error)             { return or(l.f, l.Layer.DiffID) }
func (l faultyLayer) Size() (int64, error)                 { return or(l.f, l.Layer.Size) }
func (l faultyLayer) MediaType() (types.MediaType, error)  { return or(l.f, l.Layer.MediaType) }
func (l faultyLayer) Uncompressed() (io.ReadCloser, error) { return l.reader(l.Layer.Uncompressed) }
func (l faultyLayer) Compressed() (io.ReadCloser, error)   { return l.reader(l.Layer.Compressed) }

func (l faultyLayer) reader(open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	r, err := or(l.f, open)
	if err != nil {
		return nil, err
	}
	if err := l.f.Err(); err != nil {
		r.Close()
		return io.NopCloser(io.MultiReader(strings.NewReader("\x1f\x8b\b"), failing{err})), nil
	}
	return r, nil
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// EachFault runs f without a fault, then with each. f's result is compared if it has no error; each task ends.
func EachFault(t *testing.T, least int64, f func(fault *Faults) (string, error)) {
	fault := &Faults{}
	run := func() (string, error) {
		defer func() {
			if n := fault.Unfinished.Swap(0); n != 0 {
				t.Errorf("fault %d: %d tasks have not ended", fault.at.Load(), n)
			}
		}()
		return f(fault)
	}
	want, err := run()
	if err != nil {
		t.Fatal(err)
	}
	calls := fault.calls.Load()
	if calls < least {
		t.Errorf("got %d calls that can fail, want %d", calls, least)
	}
	failed := 0
	for n := range calls {
		fault.calls.Store(0)
		fault.at.Store(n + 1)
		got, err := run()
		if err != nil {
			failed++
		} else if got != want {
			t.Errorf("fault %d: no error, and got %s, want %s", n+1, got, want)
		}
	}
	t.Logf("%d of %d faults are errors", failed, calls)
}
