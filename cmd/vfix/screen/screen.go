// Package screen is how text gets onto stdout and stderr. The rules of output, for everything that vfix prints:
//
//  1. stdout carries results and nothing else: the tables of scan, patch and verify, the one reference of rebuild,
//     JSON, requested help. It is written when the work is done, so that it stays empty if the work failed.
//  2. stderr carries the rest: progress, messages, warnings, errors. -q leaves warnings and errors, and no message
//     refers to what -q hides.
//  3. A result begins with the verdict. At most ten lines follow, then the next command, which works as it is
//     printed: quoted for a shell, with the names as they were typed, -o COPY before -i.
//  4. An error is two lines: "vfix: error: WHAT" and "vfix: hint: WHAT TO TYPE". main prints it; nothing else does.
//  5. Names come out of untrusted files: everything but printable characters is escaped (Printable).
//  6. No password, token or signed query leaves through an error or a message (textutil.Redact).
//  7. Text is made for 80 columns. On a terminal it wraps at the terminal's width; elsewhere a message is one line.
//  8. Color is for terminals, unless NO_COLOR is set or TERM is dumb, and never carries a meaning alone.
//  9. If the reader of stdout goes away, vfix ends quietly; if that of stderr does, it is ignored.
package screen

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"

	"vfix.dev/vfix/internal/textutil"
)

// Output is where the command prints.
type Output struct {
	Out, Err Stream // Out is written when it is flushed
	Quiet    bool   // only warnings and errors go to stderr
	Verbose  bool   // lines for debugging as well

	mu      sync.Mutex // held while printing to stderr
	transit bool       // the last line on the terminal is one of progress, to be overwritten
}

// Stream is stdout or stderr.
type Stream struct {
	io.Writer
	Paint Palette
	width int // columns; 0: not a terminal, and lines may be as long as they are
}

func New(stdout, stderr io.Writer) *Output {
	o := &Output{Out: describe(stdout), Err: describe(stderr)}
	o.Out.Writer = bufio.NewWriterSize(stdout, 64<<10)
	return o
}

func describe(w io.Writer) Stream {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Stream{Writer: w}
	}
	width, _, _ := term.GetSize(int(f.Fd()))
	return Stream{w, Palette{On: colored()}, cmp.Or(width, columns)}
}

// colored says whether a terminal gets colors. Source: https://no-color.org.
func colored() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// Flush writes out what was printed to stdout; the error is ready for main.
func (o *Output) Flush() error {
	err := o.Out.Writer.(*bufio.Writer).Flush()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE):
		return ErrBrokenPipe
	}
	return fmt.Errorf("stdout: %w", err)
}

// ErrBrokenPipe: the reader of stdout went away. Nothing is printed about it.
var ErrBrokenPipe = errors.New("stdout: the reader closed the pipe")

// Result prints one line to stdout.
func (o *Output) Result(line string) { fmt.Fprintln(o.Out, Printable(line)) }

// Note prints a message to stderr, unless -q is given.
func (o *Output) Note(format string, a ...any) {
	if !o.Quiet {
		o.Say("", nil, fmt.Sprintf(format, a...))
	}
}

// Warn prints a message that -q does not silence.
func (o *Output) Warn(format string, a ...any) {
	o.Say("warning:", o.Err.Paint.Yellow, fmt.Sprintf(format, a...))
}

// Prefix begins each message.
const Prefix = "vfix: "

// Say prints a message to stderr behind a label. On a terminal a long one wraps at words, its further lines under
// the first.
func (o *Output) Say(label string, paint func(string) string, text string) {
	text = Safe(text)
	if label != "" {
		text = label + " " + text
	}
	line := Prefix + o.Err.hang(text, len(Prefix))
	if label != "" {
		line = strings.Replace(line, label, paint(label), 1)
	}
	o.Line(line)
}

// The escape sequence that clears a line behind the cursor (ECMA-48, EL).
const clear = "\r\x1b[K"

// Line prints a line to stderr as it is.
func (o *Output) Line(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.transit {
		line, o.transit = clear+line, false
	}
	fmt.Fprintln(o.Err, line)
}

// lookUps and systemCalls are names of system calls in Go's errors: "lstat x: …", which says no more than x, and
// "mkdirat x: …".
var (
	lookUps     = textutil.LazyRegexp(`\b(?:open|l?stat)(?:at2?)? ([^ ]+: )`)
	systemCalls = textutil.LazyRegexp(`\b(fstat|mkdir|rename|link|unlink|symlink|readlink|chown|chmod|mknod)at( [^ ]+)?: `)
)

// Safe is text for stderr: one line, without secrets, without control characters, without the words of Go.
func Safe(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ")
	s = systemCalls().ReplaceAllString(lookUps().ReplaceAllString(s, "$1"), "$1$2: ")
	return Printable(textutil.Redact(s))
}

// Printable escapes characters that are not printable, as Go's %q does, and leaves the rest.
func Printable(s string) string {
	quoted := strconv.Quote(s)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// Palette colors text, or leaves it alone. The numbers are of ECMA-48, SGR.
type Palette struct{ On bool }

func (p Palette) Bold(s string) string   { return p.sgr("1", s) }
func (p Palette) Dim(s string) string    { return p.sgr("2", s) }
func (p Palette) Red(s string) string    { return p.sgr("1;31", s) }
func (p Palette) Green(s string) string  { return p.sgr("32", s) }
func (p Palette) Yellow(s string) string { return p.sgr("33", s) }

func (p Palette) sgr(code, s string) string {
	if !p.On || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
