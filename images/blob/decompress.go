// Decompression, as containerd does it (pkg/archive/compression): an external igzip or
// unpigz if one is installed; github.com/klauspost/compress otherwise, and for streams that
// take less time than starting a process. The compression of a stream is recognized from its first
// bytes, never from its media type.

package blob

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"vfix.dev/vfix/internal/hinterr"
)

// Compression is how a stream is compressed.
type Compression string

const (
	PlainStream Compression = "plain"
	GzipStream  Compression = "gzip"
	ZstdStream  Compression = "zstd"
)

const (
	// maxZstdWindow is the largest window accepted, in bytes: what zstd itself accepts
	// without --long (ZSTD_WINDOWLOG_LIMIT_DEFAULT, 27). It bounds memory.
	maxZstdWindow = 128 << 20
	// ChildDelay is how long a killed decompressor's input may still be read.
	ChildDelay = 5 * time.Second
	// MagicLen is how many bytes DetectCompression needs.
	MagicLen = 4
	// smallStream is the minimal length of a gzip stream, in bytes, for which an external
	// decompressor is started.
	smallStream = 64 << 10
)

// DetectCompression finds the compression from the first bytes of a stream.
// Sources: RFC 1952 section 2.3.1 (gzip), RFC 8878 sections 3.1.1 and 3.1.2 (zstd frames
// and skippable frames).
func DetectCompression(head []byte) Compression {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return GzipStream
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return ZstdStream
	case len(head) >= 4 && head[0]&0xf0 == 0x50 && head[1] == 0x2a && head[2] == 0x4d && head[3] == 0x18:
		return ZstdStream
	}
	return PlainStream
}

// ArchiveHead is how many bytes OtherCompression needs.
const ArchiveHead = 6

// otherFormats are compressions that vfix does not read, by the first bytes of a stream. Sources: the formats'
// own specifications (bzip2 has "BZh" and a level; .xz, section 2.1.1.1; LZ4 frame, magic number).
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

// Decompress returns the content of r and how it was compressed. Closing the result ends
// an external decompressor and everything that reads r; it does not close r. The reader's
// error after the last byte is io.EOF only if all of r was sound.
func Decompress(ctx context.Context, r io.Reader) (io.ReadCloser, Compression, error) {
	return decompress(ctx, r, nil)
}

// decompress is Decompress; file, unless nil, is the whole file that r reads, without moving its offset: a child can
// then read it itself, and r is read after the child.
func decompress(ctx context.Context, r io.Reader, file *os.File) (io.ReadCloser, Compression, error) {
	// exec.Cmd reports how reading ended only where the child itself ended well.
	source := &CountingReader{R: r}
	br := bufio.NewReaderSize(source, CopyBuffer)
	head, err := br.Peek(MagicLen)
	if err != nil && err != io.EOF {
		return nil, "", err
	}
	kind := DetectCompression(head)
	switch kind {
	case GzipStream:
		argv := gunzipCommand()
		if _, err := br.Peek(smallStream); argv != nil && err == nil {
			c, err := startChild(ctx, argv, br, source, file)
			if err != nil {
				return nil, kind, err
			}
			return c, kind, nil
		}
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, kind, source.blame(fmt.Errorf("gzip header: %w", err))
		}
		zr.Multistream(false)
		return &goDecompressor{r: &gzipMembers{zr, br, argv != nil}, source: source, kind: kind, close: func() { zr.Close() }}, kind, nil
	case ZstdStream:
		zr, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, kind, source.blame(fmt.Errorf("zstd header: %w", err))
		}
		return &goDecompressor{r: zr, source: source, kind: kind, close: zr.Close}, kind, nil
	}
	return io.NopCloser(br), kind, nil
}

// gzipMembers reads a stream of several gzip members, which are one content (RFC 1952,
// section 2.2). Zeros after the last one, which archives on tapes had, are not content, as
// for gzip, igzip and pigz; compress/gzip would call them a bad header.
type gzipMembers struct {
	z  *gzip.Reader
	in *bufio.Reader
	// lenient: other bytes after the members are not content either, as for igzip and pigz.
	lenient bool
}

func (g *gzipMembers) Read(p []byte) (int, error) {
	for {
		n, err := g.z.Read(p)
		if err != io.EOF || n > 0 {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
		if err := g.next(); err != nil {
			return 0, err
		}
	}
}

// next begins the next member; io.EOF means that there are no more.
func (g *gzipMembers) next() error {
	zeros := false
	for {
		b, err := g.in.Peek(1)
		if err != nil {
			return err
		}
		if b[0] != 0 {
			break
		}
		zeros = true
		g.in.Discard(1)
	}
	if head, _ := g.in.Peek(MagicLen); g.lenient && DetectCompression(head) != GzipStream {
		_, err := io.Copy(io.Discard, g.in)
		return cmp.Or(err, io.EOF)
	}
	if zeros {
		return errors.New("data after trailing zeros")
	}
	if err := g.z.Reset(g.in); err != nil {
		return err
	}
	g.z.Multistream(false)
	return nil
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

// gunzipCommand returns the external decompressor to run, nil for none. The variables that
// disable one are containerd's, and the same with vfix's own prefix.
func gunzipCommand() []string {
	for _, c := range []struct{ name, disable string }{{"igzip", "DISABLE_IGZIP"}, {"unpigz", "DISABLE_PIGZ"}} {
		if os.Getenv("VFIX_"+c.disable) != "" || os.Getenv("CONTAINERD_"+c.disable) != "" {
			continue
		}
		if path, err := exec.LookPath(c.name); err == nil {
			return []string{path, "-d", "-c"}
		}
	}
	return nil
}

// childReader is the output of an external decompressor.
type childReader struct {
	ctx    context.Context
	cancel context.CancelFunc
	Cmd    *exec.Cmd
	out    io.ReadCloser
	stderr HeadBuffer
	source *CountingReader
	file   *os.File // its standard input, nil if it is fed
	behind []byte   // a buffer for follow
	done   bool
	err    error // of the child, once done
}

// feedReader hands the compressed bytes to the child.
type feedReader struct{ *bufio.Reader }

// WriteTo is called by the io.Copy in exec.Cmd: large pieces and a large pipe mean few
// switches between the processes.
func (f feedReader) WriteTo(w io.Writer) (int64, error) {
	widenPipe(w)
	return f.Reader.WriteTo(struct{ io.Writer }{w})
}

// startChild starts a decompressor of file or, if that is nil, of what br reads of source.
func startChild(ctx context.Context, argv []string, br *bufio.Reader, source *CountingReader, file *os.File) (*childReader, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &childReader{ctx: ctx, cancel: cancel, source: source, file: file}
	c.Cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Cmd.Stdin = feedReader{br}
	if file != nil {
		c.Cmd.Stdin, c.behind = file, make([]byte, CopyBuffer)
	}
	c.Cmd.Stderr = &c.stderr
	c.Cmd.WaitDelay = ChildDelay
	out, err := c.Cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	c.out = out
	widenPipe(out)
	Apart(c.Cmd)
	if err := c.Cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	return c, nil
}

func (c *childReader) Read(p []byte) (int, error) {
	if c.done {
		return 0, c.err
	}
	n, err := c.out.Read(p)
	if err == nil {
		return n, c.follow()
	}
	c.done = true
	c.err = c.wait()
	return n, c.err
}

// follow reads as far as the child has: both share the file's offset, and the bytes are still in memory.
func (c *childReader) follow() error {
	if c.file == nil {
		return nil
	}
	at, err := c.file.Seek(0, io.SeekCurrent)
	for err == nil && c.source.N < at {
		_, err = c.source.Read(c.behind[:min(at-c.source.N, CopyBuffer)])
	}
	if err == io.EOF {
		err = nil
	}
	return err
}

// wait gives io.EOF for a child that ended well, and otherwise the first cause.
func (c *childReader) wait() error {
	err := c.Cmd.Wait()
	switch {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case c.source.Err != nil:
		return c.source.Err
	case err == nil:
		return io.EOF
	}
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.Exited() { // a signal says nothing about the input
		if text := strings.TrimSpace(c.stderr.String()); text != "" {
			return hinterr.Damaged("%s: %s", c.Cmd.Path, strings.ReplaceAll(text, "\n", "; "))
		}
	}
	return fmt.Errorf("%s: %w", c.Cmd.Path, err)
}

func (c *childReader) Close() error {
	c.cancel()
	if !c.done {
		c.done, c.err = true, errClosed
		c.Cmd.Wait()
	}
	return nil
}

var errClosed = errors.New("read of a closed stream")

// HeadBuffer keeps the first bytes written to it, enough for an error message.
type HeadBuffer struct{ b []byte }

func (t *HeadBuffer) Write(p []byte) (int, error) {
	const limit = 512
	t.b = append(t.b, p[:min(len(p), limit-len(t.b))]...)
	return len(p), nil
}

func (t *HeadBuffer) String() string { return string(t.b) }
