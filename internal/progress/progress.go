// Package progress is the interface by which long work reports its progress.
package progress

// Start begins a piece of progress; a nil Progress is silence.
func Start(p Reporter, kind, name string, size int64) Task {
	if p == nil {
		p = Silent{}
	}
	return p.Start(kind, name, size)
}

// Note passes a message on; a nil Progress is silence.
func Note(p Reporter, format string, args ...any) {
	if p != nil {
		p.Note(format, args...)
	}
}

// Debug passes on a debugging line, if the Reporter accepts such lines.
func Debug(p Reporter, format string, args ...any) {
	if d, ok := p.(interface{ Debug(string, ...any) }); ok {
		d.Debug(format, args...)
	}
}

// Silent is what a nil Reporter is replaced with.
type Silent struct{}

func (Silent) Start(string, string, int64) Task { return Silent{} }

func (Silent) Note(string, ...any) {}

func (Silent) Add(int64) {}

func (Silent) Done() {}

// Reporter gets reports of a package's progress. Its methods may be called from several goroutines at once. A nil
// Reporter in options means silence.
type Reporter interface {
	// Start says that work on something of size bytes begins (size < 0: not known);
	// kind is "read", "write" or "push", name a layer's short digest or a path.
	Start(kind, name string, size int64) Task
	// Note is a message for people, one line without a prefix.
	Note(format string, args ...any)
}

// Task is one piece of work under way.
type Task interface {
	Add(n int64) // bytes done
	Done()
}
