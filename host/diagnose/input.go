// The user's input: files, whose format is recognized by their first bytes, and text.

package diagnose

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"vfix.dev/vfix/images/blob"
	"vfix.dev/vfix/internal/textutil"
)

const (
	// headSize is how much of a file is examined to recognize it, in bytes.
	headSize = 512
	// maxLine is the longest line that is read, in bytes; longer ones are cut. maxDocument is the longest JSON text.
	maxLine     = 64 << 10
	maxDocument = 64 << 20
	// maxUnpacked is the largest core that is unpacked, in bytes.
	maxUnpacked = 16 << 30
)

// IsFile reports whether a name, which may also be a line of a log, is the name of a file.
func IsFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !strings.Contains(name, " ")
}

// File diagnoses a file: a core file, also compressed with gzip or zstd as systemd-coredump does, or a text.
func File(name string, o Options) (*Result, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return nil, refused(name+": a directory", "name a core file or log in it; 'vfix scan "+textutil.QuotePath(name)+"' looks for programs that call the page")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !fi.Mode().IsRegular() { // a pipe, /dev/kmsg
		return Text(name, f, o)
	}
	r, compression, err := blob.Decompress(context.Background(), f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	in := bufio.NewReaderSize(r, maxLine)
	switch head, _ := in.Peek(len(elf.ELFMAG)); {
	case string(head) != elf.ELFMAG:
		return Text(name, in, o)
	case compression == blob.PlainStream:
		return Core(name, f, o)
	}
	tmp, err := blob.TempFile() // a core is read at any offset
	if err != nil {
		return nil, err
	}
	defer tmp.Close()
	if _, err := io.Copy(tmp, io.LimitReader(in, maxUnpacked)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return Core(name, tmp, o)
}

// Text diagnoses a text: a log, a trace, a table, error messages, or a description of containers in JSON.
func Text(name string, in io.Reader, o Options) (*Result, error) {
	t := &textFacts{}
	if err := t.read(name, in); err != nil {
		return nil, err
	}
	return &Result{Input: name, Lines: t.lines, Crashes: t.conclude(o)}, nil
}

// IsLine reports whether words from the command line are a line of a log that was not quoted.
func IsLine(words []string) bool {
	const least = 3
	if len(words) < least || IsFile(words[0]) {
		return false
	}
	t := &textFacts{}
	t.line(strings.Join(words, " "))
	return len(t.crashes) > 0 || t.schema1 != ""
}

// jsonStart matches the start of JSON, but not a line of a log that begins with a time in brackets.
var jsonStart = textutil.LazyRegexp(`^\s*(?:\[\s*)*[{\]]`)

// read takes the facts of a text.
func (t *textFacts) read(name string, in io.Reader) error {
	br := bufio.NewReaderSize(textutil.UTF8(in), maxLine)
	head, err := br.Peek(headSize)
	if len(head) == 0 && err == io.EOF {
		return refused(name+": empty: nothing to diagnose", "an empty core file: check 'ulimit -c' and the disk; an empty log: dmesg and journalctl -k may need root")
	}
	if err := checkText(name, head); err != nil {
		return err
	}
	if jsonStart().Match(head) {
		document, err := io.ReadAll(io.LimitReader(br, maxDocument))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if t.describe(document) {
			return nil
		}
		br = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(document), br), maxLine)
	}
	for {
		line, err := br.ReadSlice('\n')
		for whole := err; errors.Is(whole, bufio.ErrBufferFull); { // the rest of a long line is left out
			_, whole = br.ReadSlice('\n')
		}
		if len(line) > 0 {
			t.line(strings.Trim(string(line), "\r\n\x00")) // a machine that crashed leaves zeros in its log
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// checkText refuses a file that is not text (mimesniff.spec.whatwg.org, section 7.1). Zeros at its start are allowed.
func checkText(name string, head []byte) error {
	head = bytes.TrimLeft(head, "\x00")
	if len(head) > 0 && strings.HasPrefix(http.DetectContentType(head), "text/") {
		return nil
	}
	file := textutil.QuotePath(name)
	if name == "stdin" {
		file = "FILE"
	}
	return refused(name+": neither a core file nor text", "unpack a compressed file, and save a core from stdin to a file; for an image: vfix scan "+file+
		"; for a journal: journalctl --file "+file+" -k | vfix diagnose -")
}
