package images

// startTask begins a piece of progress; a nil Progress is silence.
func startTask(p Progress, kind, name string, size int64) Task {
	if p == nil {
		p = silent{}
	}
	return p.Start(kind, name, size)
}

// note passes a message on; a nil Progress is silence.
func note(p Progress, format string, args ...any) {
	if p != nil {
		p.Note(format, args...)
	}
}
