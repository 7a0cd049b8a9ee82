// Applying stated runs of bytes to a content, and comparing two contents.

package provenance

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"vfix.dev/vfix/images/blob"
)

// ApplyRuns returns the content with the runs of bytes replaced; why says what is wrong
// with them.
func ApplyRuns(runs []StatedRun, before *io.SectionReader) (r io.Reader, why string, err error) {
	slices.SortFunc(runs, func(a, b StatedRun) int { return cmp.Compare(a.Offset, b.Offset) })
	var parts []io.Reader
	at, size := uint64(0), uint64(before.Size())
	for _, run := range runs {
		old, err1 := hex.DecodeString(run.Before)
		new, err2 := hex.DecodeString(run.After)
		n := uint64(len(old))
		switch {
		case err1 != nil || err2 != nil || len(old) != len(new):
			return nil, fmt.Sprintf("offset %#x: not two runs of as many bytes in hex", run.Offset), nil
		case run.Offset < at || run.Offset > size || n > size-run.Offset:
			return nil, fmt.Sprintf("offset %#x: %d bytes there overlap others or the end of the file", run.Offset, n), nil
		}
		is := make([]byte, n)
		if _, err := before.ReadAt(is, int64(run.Offset)); err != nil && err != io.EOF {
			return nil, "", err
		}
		if !bytes.Equal(is, old) {
			return nil, fmt.Sprintf("offset %#x: got %x in the base, stated %x", run.Offset, is, old), nil
		}
		parts = append(parts, io.NewSectionReader(before, int64(at), int64(run.Offset-at)), bytes.NewReader(new))
		at = run.Offset + n
	}
	parts = append(parts, io.NewSectionReader(before, int64(at), int64(size-at)))
	return io.MultiReader(parts...), "", nil
}

// FirstDifference compares two streams of one length; -1 says that they are equal.
func FirstDifference(a, b io.Reader) (int64, error) {
	x, y := make([]byte, blob.CopyBuffer), make([]byte, blob.CopyBuffer)
	for at := int64(0); ; {
		n, err := blob.Fill(b, y)
		if err != nil && err != io.EOF {
			return 0, err
		}
		if _, err := io.ReadFull(a, x[:n]); err != nil {
			return 0, err
		}
		for i := range n {
			if x[i] != y[i] {
				return at + int64(i), nil
			}
		}
		if at += int64(n); err == io.EOF {
			return -1, nil
		}
	}
}
