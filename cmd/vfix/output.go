// The output rules. Everything that vfix prints goes through an output.
//
//  1. stdout carries results and nothing else: the tables of scan, patch and verify, the
//     one reference of rebuild, JSON, help that was asked for. It is written when the work
//     is done, so that it stays empty where the work failed.
//  2. stderr carries the rest: progress, messages, warnings, the table of rebuild, errors.
//     --progress quiet leaves warnings and errors.
//  3. An error is two lines: "vfix: error: WHAT" and "vfix: hint: WHAT TO DO". main prints
//     it; nothing else does.
//  4. A message starts with "vfix: " and is one line; on a terminal it wraps at words.
//  5. Names come out of untrusted files: whatever is no printable character is escaped, so
//     that no file name can write to the terminal (printable).
//  6. No password, token or signed query leaves through an error or a message (images.Redact).
//  7. Colour and bars are for terminals, decided for stdout and stderr apart. A NO_COLOR
//     that is not empty, or TERM=dumb, means none. Colour never carries a meaning alone.
//  8. A reader of stdout that goes away ends vfix quietly; one of stderr is ignored.

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"vfix.dev/vfix/internal/redact"
)

// output is where the command prints.
type output struct {
	stdout   *bufio.Writer
	stderr   io.Writer
	out, err stream
	quiet    bool

	mu       sync.Mutex // held to print to stderr
	progress *reporter  // nil until a verb starts one
}

// stream is what is known of stdout or stderr.
type stream struct {
	tty   bool
	bars  bool // a terminal that says how high it is: there is room for bars
	width int  // columns; 0: not a terminal, and lines may be as long as they are
	paint palette
}

func newOutput(stdout, stderr io.Writer) *output {
	return &output{
		stdout: bufio.NewWriterSize(stdout, 64<<10),
		stderr: stderr,
		out:    describe(stdout, os.Getenv),
		err:    describe(stderr, os.Getenv),
	}
}

// describe finds out whether w is a terminal, and which.
func describe(w io.Writer, getenv func(string) string) stream {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return stream{}
	}
	s := stream{tty: true, width: 80}
	if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.width = width
		s.bars = height > 0 && getenv("TERM") != "dumb"
	}
	s.paint = palette{on: colour(getenv, runtime.GOOS)}
	return s
}

// colour says whether a terminal gets colours. Source: https://no-color.org. The old
// Windows console shows escape sequences as text; the terminals that set WT_SESSION or
// TERM understand them.
func colour(getenv func(string) string, goos string) bool {
	switch {
	case getenv("NO_COLOR") != "", getenv("TERM") == "dumb":
		return false
	case goos == "windows":
		return getenv("WT_SESSION") != "" || getenv("TERM") != ""
	}
	return true
}

// flush writes out what was printed to stdout; the error is ready for main.
func (o *output) flush() error {
	if err := o.stdout.Flush(); err != nil {
		return stdoutError(err)
	}
	return nil
}

// result prints one line to stdout.
func (o *output) result(line string) { fmt.Fprintln(o.stdout, printable(line)) }

// note prints a message for people to stderr.
func (o *output) note(format string, a ...any) {
	if !o.quiet {
		o.say("", nil, fmt.Sprintf(format, a...))
	}
}

// warn prints a message that --progress quiet does not silence.
func (o *output) warn(format string, a ...any) {
	o.say("warning:", o.err.paint.yellow, fmt.Sprintf(format, a...))
}

// fail prints an error and what to do about it. Findings are told, not an error.
func (o *output) fail(err error) {
	var found *findingsError
	if err == errBrokenPipe || errors.As(err, &found) && found.told {
		return
	}
	label := "error:"
	if found != nil {
		label = ""
	}
	o.say(label, o.err.paint.red, err.Error())
	if hint := hintOf(err); hint != "" {
		o.say("hint:", o.err.paint.bold, hint)
	}
}

// prefix begins each message.
const prefix = "vfix: "

// say prints a message to stderr. On a terminal a long one
// wraps at words, its further lines under the first.
func (o *output) say(label string, paint func(string) string, text string) {
	text = safe(text)
	if label != "" {
		text = label + " " + text
	}
	lines := []string{text}
	if width := o.err.width - len(prefix); width > 0 {
		lines = wrapLong(text, max(width, minLast))
	}
	line := prefix + strings.Join(lines, "\n"+strings.Repeat(" ", len(prefix)))
	if label != "" {
		line = strings.Replace(line, label, paint(label), 1)
	}
	o.line(line)
}

// line prints a line to stderr as it is, above the bars where there are some.
func (o *output) line(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.progress != nil && o.progress.above(line+"\n") {
		return
	}
	fmt.Fprintln(o.stderr, line)
}

// endProgress takes the bars off the terminal. It may be called more than once.
func (o *output) endProgress() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.progress != nil {
		o.progress.end()
		o.progress = nil
	}
}

// systemCalls are names that Go's errors have of calls relative to a directory: "statat x: …".
var systemCalls = regexp.MustCompile(`\b(open|f?stat|lstat|mkdir|rename|link|unlink|symlink|readlink|chown|chmod|mknod)at2?( [^ ]+)?: `)

// safe is text for stderr: one line, without secrets, without control characters, without
// the words of Go.
func safe(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ")
	s = systemCalls.ReplaceAllString(s, "$1$2: ")
	return printable(redact.Redact(s))
}

// printable escapes what is no printable character, as Go's %q does, and leaves the rest.
func printable(s string) string {
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

// palette colours text, or leaves it alone. The numbers are of ECMA-48, SGR.
type palette struct{ on bool }

func (p palette) bold(s string) string { return p.sgr("1", s) }

func (p palette) dim(s string) string { return p.sgr("2", s) }

func (p palette) red(s string) string { return p.sgr("1;31", s) }

func (p palette) green(s string) string { return p.sgr("32", s) }

func (p palette) yellow(s string) string { return p.sgr("33", s) }

func (p palette) sgr(code, s string) string {
	if !p.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
