// Decompression, as containerd does it (pkg/archive/compression): by an external igzip or unpigz if one is installed,
// else by github.com/klauspost/compress. The compression of a stream is recognized from its first bytes, never from
// its media type.

package blob

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression is how a stream is compressed.
type Compression string

const (
	PlainStream Compression = "plain"
	GzipStream  Compression = "gzip"
	ZstdStream  Compression = "zstd"
)

const (
	// maxZstdWindow is the largest window accepted, in bytes: what zstd itself accepts without --long
	// (ZSTD_WINDOWLOG_LIMIT_DEFAULT, 27). It bounds memory.
	maxZstdWindow = 128 << 20
	// MagicLen is how many bytes DetectCompression needs.
	MagicLen = 4
	// ArchiveHead is how many bytes OtherCompression needs.
	ArchiveHead = 6
)

// DetectCompression finds the compression from the first bytes of a stream. Sources: RFC 1952 section 2.3.1 (gzip),
// RFC 8878 sections 3.1.1 and 3.1.2 (zstd frames and skippable frames).
func DetectCompression(head []byte) Compression {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return GzipStream
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return ZstdStream
	case len(head) >= MagicLen && head[0]&0xf0 == 0x50 && bytes.HasPrefix(head[1:], []byte{0x2a, 0x4d, 0x18}):
		return ZstdStream
	}
	return PlainStream
}

// otherFormats are compressions that vfix does not read, by the first bytes of a stream. Sources: the formats' own
// specifications (bzip2 has "BZh" and a level; .xz, section 2.1.1.1; LZ4 frame, magic number).
var otherFormats = []struct{ magic, name string }{
	{"BZh", "bzip2"}, {"\xfd7zXZ\x00", "xz"}, {"\x04\x22\x4d\x18", "lz4"}, {"LZIP", "lzip"}, {"\x5d\x00\x00", "lzma"}, {"\x1f\x9d", "compress"},
}

// OtherCompression names the compression of a stream that vfix does not read, "" for none.
func OtherCompression(head []byte) string {
	for _, f := range otherFormats {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return f.name
		}
	}
	return ""
}

// Decompress returns the content of r and how it was compressed. Closing the result ends an external decompressor and
// everything that reads r; it does not close r. The reader's error after the last byte is io.EOF only if all of r was
// sound.
func Decompress(ctx context.Context, r io.Reader) (io.ReadCloser, Compression, error) {
	return decompress(ctx, r, nil)
}

// decompress is Decompress; file, unless nil, is the whole file that r reads, without moving its offset: a child then
// reads it itself, and r is read after the child.
func decompress(ctx context.Context, r io.Reader, file *os.File) (io.ReadCloser, Compression, error) {
	source := &CountingReader{R: r}
	in := bufio.NewReaderSize(source, CopyBuffer)
	head, err := in.Peek(MagicLen)
	if err != nil && err != io.EOF {
		return nil, "", err
	}
	kind := DetectCompression(head)
	switch kind {
	case GzipStream:
		argv := gunzipCommand()
		if _, err := in.Peek(smallStream); argv != nil && err == nil {
			c, err := startChild(ctx, argv, in, source, file)
			if err != nil {
				return nil, kind, err
			}
			return c, kind, nil
		}
		zr, err := gzip.NewReader(in)
		if err != nil {
			return nil, kind, source.blame(fmt.Errorf("gzip header: %w", err))
		}
		return &goDecompressor{r: zr, source: source, kind: kind, close: func() { zr.Close() }}, kind, nil
	case ZstdStream:
		zr, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, kind, source.blame(fmt.Errorf("zstd header: %w", err))
		}
		return &goDecompressor{r: zr, source: source, kind: kind, close: zr.Close}, kind, nil
	}
	return io.NopCloser(in), kind, nil
}

// goDecompressor is a decompressor of klauspost/compress.
type goDecompressor struct {
	r      io.Reader
	source *CountingReader
	kind   Compression
	close  func()
}

func (d *goDecompressor) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if err != nil && err != io.EOF {
		err = d.source.blame(fmt.Errorf("%s: %w", d.kind, err))
	}
	return n, err
}

func (d *goDecompressor) Close() error {
	d.close()
	return nil
}
