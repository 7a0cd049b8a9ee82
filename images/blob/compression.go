// Decompression: by igzip if it is installed, which takes half the time of Go's decompressors, else by
// github.com/klauspost/compress. The compression of a stream is recognized from its first bytes, never from its media
// type.

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
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

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
	// maxZstdWindow is the largest window accepted, in bytes: what zstd itself accepts without --long
	// (ZSTD_WINDOWLOG_LIMIT_DEFAULT, 27). It bounds memory.
	maxZstdWindow = 128 << 20
	// magicLen is how many bytes DetectCompression needs.
	magicLen = 4
	// smallStream is the minimal length of a gzip stream, in bytes, for which igzip is started: shorter ones take less
	// time than starting a process.
	smallStream = 64 << 10
	// setPipeSize is F_SETPIPE_SZ (linux/fcntl.h), which other systems refuse, and pipeSize the most that every user may
	// have (pipe(7)). With 64 KiB, decompressor and reader wait for each other too often: a scan takes a fifth longer.
	setPipeSize = 1031
	pipeSize    = 1 << 20
)

// DetectCompression finds the compression from the first bytes of a stream. Sources: RFC 1952 section 2.3.1 (gzip),
// RFC 8878 sections 3.1.1 and 3.1.2 (zstd frames and skippable frames).
func DetectCompression(head []byte) Compression {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return GzipStream
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return ZstdStream
	case len(head) >= magicLen && head[0]&0xf0 == 0x50 && bytes.HasPrefix(head[1:], []byte{0x2a, 0x4d, 0x18}):
		return ZstdStream
	}
	return PlainStream
}

// CompressionOf is how a file is compressed.
func CompressionOf(f io.ReaderAt) (Compression, error) {
	head := make([]byte, magicLen)
	n, err := f.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	return DetectCompression(head[:n]), err
}

// Decompress returns the content of r and how it was compressed. Compressed content is unpacked in parallel with its
// reader, until Close, which waits for a Read of r that is under way and does not close r. The reader's error after the
// last byte is io.EOF only if all of r was sound.
func Decompress(ctx context.Context, r io.Reader) (io.ReadCloser, Compression, error) {
	source := &CountingReader{R: r}
	in := bufio.NewReaderSize(source, CopyBuffer)
	head, err := in.Peek(magicLen)
	if err != nil && err != io.EOF {
		return nil, "", err
	}
	kind := DetectCompression(head)
	if kind == PlainStream {
		return io.NopCloser(in), kind, nil
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, kind, err
	}
	widen(from)
	ctx, cancel := context.WithCancel(ctx)
	u := &unpacking{pipe: from, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(u.ended)
		err := unpack(ctx, to, in, kind)
		if closing := to.Close(); closing != nil { // a reader would wait for the end of the pipe
			from.Close()
			err = cmp.Or(err, closing)
		}
		if ctx.Err() == nil { // the rest, padding or not, shows whether r is sound
			io.Copy(io.Discard, in)
		}
		u.err = cmp.Or(context.Cause(ctx), source.Err, err)
	}()
	return u, kind, nil
}

// unpacking is a stream that a goroutine unpacks.
type unpacking struct {
	pipe   io.ReadCloser
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // why it ended, nil for the end of the stream; valid once ended is closed
}

func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.pipe.Read(p)
	if err != nil {
		<-u.ended
		err = cmp.Or(u.err, err)
	}
	return n, err
}

func (u *unpacking) Close() error {
	u.cancel()
	err := u.pipe.Close()
	<-u.ended
	return err
}

// unpack writes the content of a gzip or zstd stream.
func unpack(ctx context.Context, w io.Writer, in *bufio.Reader, kind Compression) error {
	if _, short := in.Peek(smallStream); short == nil && kind == GzipStream {
		if program, err := exec.LookPath("igzip"); err == nil {
			return filter(ctx, program, w, in)
		}
	}
	var r io.Reader
	var err error
	if kind == ZstdStream {
		var zr *zstd.Decoder
		zr, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err == nil {
			defer zr.Close()
		}
		r = zr
	} else {
		r, err = gzip.NewReader(in)
	}
	if err == nil {
		_, err = io.CopyBuffer(w, r, make([]byte, CopyBuffer))
	}
	if err != nil {
		return hinterr.Damaged("%s: %w", kind, err)
	}
	return nil
}

// filter runs an external decompressor.
func filter(ctx context.Context, program string, w io.Writer, in io.Reader) error {
	cmd := exec.CommandContext(ctx, program, "-d", "-c")
	cmd.Stdout = w
	to, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	widen(to)
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		io.Copy(to, Reading{ctx, in, nil}) // the source has its error
		to.Close()
	}()
	// In a process group of its own: a terminal sends ^C to the whole foreground group, and a decompressor that ^C ends
	// looks like a damaged blob. vfix ends its children itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Run()
	<-fed
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.Exited() { // a signal says nothing about the input
		return hinterr.Damaged("gzip: the stream is damaged or ends early, %s reports", program) // what it says names no file
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", program, err)
	}
	return err
}

// widen makes a pipe large, which spares two processes most of their turns; one of the usual size does as well.
func widen(pipe any) {
	f, is := pipe.(syscall.Conn)
	if !is {
		return
	}
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, setPipeSize, pipeSize) })
	}
}
