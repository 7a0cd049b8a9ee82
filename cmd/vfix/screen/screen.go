// Package screen is how text gets onto stdout and stderr: messages, tables, wrapped text, progress.
// The output rules, for everything that vfix prints:
//
//  1. stdout carries results and nothing else: the tables of scan, patch and verify, the
//     one reference of rebuild, JSON, requested help. It is written when the work
//     is done, so that it stays empty if the work failed.
//  2. stderr carries the rest: progress, messages, warnings, the table of rebuild, errors.
//     --progress quiet leaves warnings and errors.
//  3. An error is two lines: "vfix: error: WHAT" and "vfix: hint: WHAT TO DO". main prints
//     it; nothing else does.
//  4. A message starts with "vfix: " and is one line; on a terminal it wraps at words.
//  5. Names come out of untrusted files: everything but printable characters is escaped, so
//     that no file name can write to the terminal (Printable).
//  6. No password, token or signed query leaves through an error or a message (redact.Redact).
//  7. Colour and bars are for terminals, decided for stdout and stderr apart. A NO_COLOR
//     that is not empty, or TERM=dumb, means none. Colour never carries a meaning alone.
//  8. If the reader of stdout goes away, vfix ends quietly; if that of stderr does, it is ignored.
package screen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"vfix.dev/vfix/internal/lazy"
	"vfix.dev/vfix/internal/redact"
)

// Output is where the command prints.
type Output struct {
	Stdout   *bufio.Writer
	Stderr   io.Writer
	Out, Err Stream
	Quiet    bool
	// Debugging says that debugging lines are printed.
	Debugging bool

	mu       sync.Mutex // held while printing to stderr
	progress *reporter  // nil until a verb starts one
}

// Stream is what is known of stdout or stderr.
type Stream struct {
	Tty   bool
	bars  bool // a terminal of known height: there is room for bars
	Width int  // columns; 0: not a terminal, and lines may be as long as they are
	Paint Palette
}

func New(stdout, stderr io.Writer) *Output {
	o := &Output{Out: describe(stdout, os.Getenv), Err: describe(stderr, os.Getenv)}
	if PlainASCII(os.Getenv) {
		stdout, stderr = ascii{stdout}, ascii{stderr}
	}
	o.Stdout, o.Stderr = bufio.NewWriterSize(stdout, 64<<10), stderr
	return o
}

func describe(w io.Writer, getenv func(string) string) Stream {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Stream{}
	}
	s := Stream{Tty: true, Width: 80}
	if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.Width = width
		s.bars = height > 0 && getenv("TERM") != "dumb"
	}
	s.Paint = Palette{On: colour(getenv)}
	return s
}

// colour says whether a terminal gets colours. Source: https://no-color.org.
func colour(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Flush writes out what was printed to stdout; the error is ready for main.
func (o *Output) Flush() error {
	if err := o.Stdout.Flush(); err != nil {
		return stdoutError(err)
	}
	return nil
}

// errBrokenPipe: the reader of stdout went away. Nothing is printed about it.
var ErrBrokenPipe = errors.New("stdout: the reader closed the pipe")

// stdoutError is a result that could not be printed.
func stdoutError(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return ErrBrokenPipe
	}
	return fmt.Errorf("stdout: %w", err)
}

// Result prints one line to stdout.
func (o *Output) Result(line string) { fmt.Fprintln(o.Stdout, Printable(line)) }

// Note prints a message for people to stderr.
func (o *Output) Note(format string, a ...any) {
	if !o.Quiet {
		o.Say("", nil, fmt.Sprintf(format, a...))
	}
}

// Warn prints a message that --progress quiet does not silence.
func (o *Output) Warn(format string, a ...any) {
	o.Say("warning:", o.Err.Paint.Yellow, fmt.Sprintf(format, a...))
}

// Prefix begins each message.
const Prefix = "vfix: "

// Say prints a message to stderr. On a terminal a long one
// wraps at words, its further lines under the first.
func (o *Output) Say(label string, paint func(string) string, text string) {
	text = Safe(text)
	if label != "" {
		text = label + " " + text
	}
	if o.Err.Width > 0 {
		text = hang(text, o.Err.Width, len(Prefix))
	}
	line := Prefix + text
	if label != "" {
		line = strings.Replace(line, label, paint(label), 1)
	}
	o.Line(line)
}

// Line prints a line to stderr as it is, above the bars if there are any.
func (o *Output) Line(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.progress != nil && o.progress.above(line+"\n") {
		return
	}
	fmt.Fprintln(o.Stderr, line)
}

// EndProgress removes the bars from the terminal. It may be called more than once.
func (o *Output) EndProgress() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.progress != nil {
		o.progress.end()
		o.progress = nil
	}
}

// systemCalls are names of calls relative to a directory in Go's errors: "statat x: …".
var systemCalls = lazy.Regexp(`\b(open|f?stat|lstat|mkdir|rename|link|unlink|symlink|readlink|chown|chmod|mknod)at2?( [^ ]+)?: `)

// Safe is text for stderr: one line, without secrets, without control characters, without
// the words of Go.
func Safe(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ")
	s = systemCalls().ReplaceAllString(s, "$1$2: ")
	return Printable(redact.Redact(s))
}

// Printable escapes characters that are not printable, as Go's %q does, and leaves the rest.
func Printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if unicode.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(s[:n])
		} else {
			b.WriteString(strings.Trim(strconv.QuoteToASCII(s[:n]), `"`))
		}
		s = s[n:]
	}
	return b.String()
}

// Palette colours text, or leaves it alone. The numbers are of ECMA-48, SGR.
type Palette struct{ On bool }

func (p Palette) Bold(s string) string { return p.sgr("1", s) }

func (p Palette) Dim(s string) string { return p.sgr("2", s) }

func (p Palette) Red(s string) string { return p.sgr("1;31", s) }

func (p Palette) Green(s string) string { return p.sgr("32", s) }

func (p Palette) Yellow(s string) string { return p.sgr("33", s) }

func (p Palette) sgr(code, s string) string {
	if !p.On || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
