// Progress on stderr: bars, or lines.

package screen

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"vfix.dev/vfix/internal/progress"
)

// reporter shows on stderr what package images is doing: bars on a terminal, plain lines
// elsewhere, nothing when quiet.
type reporter struct {
	out  *Output
	bars *mpb.Progress // nil for lines
	// shown says that there was a bar.
	shown atomic.Bool
	// named are the names that already have a line or bar: a layer is read, compressed, written and pushed
	// under one.
	named sync.Map
	many  atomic.Int64 // the largest number of named
}

// maxTold is how many names are remembered: a list of images has many layers.
const maxNames = 10_000

// StartProgress makes the reporter of a verb. mode is the value of --progress.
func (o *Output) StartProgress(ctx context.Context, mode string) progress.Reporter {
	o.Quiet = mode == "quiet"
	r := &reporter{out: o}
	if mode == "tty" || mode == "auto" && o.Err.bars {
		r.bars = mpb.New(mpb.WithOutput(o.Stderr), mpb.WithAutoRefresh(), mpb.PopCompletedMode())
		// The terminal has echoed ^C where mpb left the cursor, and mpb goes up without
		// going to the first column (v8.9.3).
		context.AfterFunc(ctx, func() { r.above("\r") })
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.progress = r
	return r
}

// end removes the bars from the terminal; those that are not full stay as they are. Later
// progress is not shown.
func (r *reporter) end() {
	if r.bars == nil {
		return
	}
	r.bars.Shutdown()
	if r.shown.Load() {
		fmt.Fprintln(r.out.Stderr) // between the bars and the text that follows
	}
}

// above prints text above the bars; false means that there are none.
func (r *reporter) above(text string) bool {
	if r.bars == nil {
		return false
	}
	_, err := io.WriteString(r.bars, text)
	return err == nil
}

// Note implements images.Progress.
func (r *reporter) Note(format string, args ...any) { r.out.Note(format, args...) }

// Debug prints a line for debugging, with --debug.
func (r *reporter) Debug(format string, args ...any) {
	if r.out.Debugging {
		r.out.Say("debug:", r.out.Err.Paint.Dim, fmt.Sprintf(format, args...))
	}
}

// Start implements images.Progress.
func (r *reporter) Start(kind, name string, size int64) progress.Task {
	name = shorten(Printable(name), 40)
	if r.out.Quiet {
		return progress.Silent{}
	}
	if r.many.Add(1) > maxNames {
		r.named.Clear()
		r.many.Store(0)
	}
	_, again := r.named.LoadOrStore(name, true)
	if r.bars == nil {
		return r.startLine(kind, name, size, again)
	}
	return r.startBar(kind, name, size, again)
}

// kindWidth is the length of the longest kind, nameWidth how many columns kind and name get
// in front of a bar.
const (
	kindWidth = len("write")
	nameWidth = 28
)

// startBar adds a bar, which goes when it is full if its name had one before; none if the
// bars have ended already.
func (r *reporter) startBar(kind, name string, size int64, again bool) progress.Task {
	label := fmt.Sprintf("%-*s ", kindWidth, kind)
	label += shorten(name, nameWidth-len(label))
	label = Pad(label, nameWidth, false) + " "
	style := fullBar()
	if size <= 0 {
		style = mpb.SpinnerStyle("|", "/", "-", "\\").PositionLeft()
	}
	counters := decor.Any(func(s decor.Statistics) string {
		if s.Total > 0 && !s.Completed {
			return fmt.Sprintf("%10s / %s", Size(s.Current), Size(s.Total))
		}
		return fmt.Sprintf("%10s", Size(s.Current))
	})
	bar := r.add(size, style, label, []decor.Decorator{counters}, mpb.BarFillerOnComplete("done"),
		mpb.BarOptional(mpb.BarNoPop(), again), mpb.BarOptional(mpb.BarRemoveOnComplete(), again))
	if bar == nil {
		return progress.Silent{}
	}
	return barTask{bar}
}

// fullBar is a bar of something whose size is known.
func fullBar() mpb.BarFillerBuilder {
	return mpb.BarStyle().Lbound("[").Filler("=").Tip(">").Padding(" ").Rbound("]")
}

// add adds a bar behind a label, and a text after it; nil if the bars have ended already.
func (r *reporter) add(size int64, style mpb.BarFillerBuilder, label string, behind []decor.Decorator, o ...mpb.BarOption) *mpb.Bar {
	bar, err := r.bars.Add(size, style.Build(), append(o, mpb.PrependDecorators(decor.Name(label)), mpb.AppendDecorators(behind...), mpb.BarFillerTrim())...)
	if err != nil {
		return nil
	}
	r.shown.Store(true)
	return bar
}

// barTask is one bar. Several goroutines may call mpb at once.
type barTask struct{ bar *mpb.Bar }

func (t barTask) Add(n int64) { t.bar.IncrInt64(n) }

// Done fills the bar, whatever it shows.
func (t barTask) Done() { t.bar.SetTotal(-1, true) }

// lineInterval is how long a plain line waits for the next one about the same task.
const lineInterval = 10 * time.Second

// lineTask prints a line when it begins, unless its name had one before, and one now and then
// while it lasts.
type lineTask struct {
	r          *reporter
	kind, name string
	size       int64

	mu   sync.Mutex
	done int64
	next time.Time
}

func (r *reporter) startLine(kind, name string, size int64, again bool) progress.Task {
	switch {
	case again:
	case size >= 0:
		r.out.Note("%s %s (%s)", kind, name, Size(size))
	default:
		r.out.Note("%s %s", kind, name)
	}
	return &lineTask{r: r, kind: kind, name: name, size: size, next: time.Now().Add(lineInterval)}
}

func (t *lineTask) Add(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done += n
	now := time.Now()
	if now.Before(t.next) {
		return
	}
	t.next = now.Add(lineInterval)
	of := ""
	if t.size > 0 {
		of = " of " + Size(t.size)
	}
	t.r.out.Note("%s %s: %s%s", t.kind, t.name, Size(t.done), of)
}

func (t *lineTask) Done() {}

// shorten cuts a name to at most width columns; of a path the end says more than the
// beginning.
func shorten(s string, width int) string {
	if runewidth.StringWidth(s) <= width {
		return s
	}
	if strings.HasPrefix(s, "sha256:") {
		return runewidth.Truncate(s, min(width, len("sha256:")+12), "") // as blob.ShortHash
	}
	return runewidth.TruncateLeft(s, runewidth.StringWidth(s)-width+3, "...")
}
