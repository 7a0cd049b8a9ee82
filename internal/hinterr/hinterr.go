// Package hinterr has the errors that callers branch on, and errors that carry a hint.
package hinterr

import (
	"errors"
	"fmt"
)

// Errors that callers branch on, to be found with errors.Is.
var (
	// ErrNotFound: the file, image, tag or blob is not there.
	ErrNotFound = errors.New("not found")
	// ErrNoDaemon: no docker or podman answers.
	ErrNoDaemon = errors.New("no docker or podman daemon answers")
	// ErrUnauthorized: the registry requires credentials, or different ones.
	ErrUnauthorized = errors.New("not authorized")
	// ErrPlatform: the image is there, but not for the requested platform.
	ErrPlatform = errors.New("no image for the platform")
	// ErrDamaged: content that contradicts its own digest, size or manifest.
	ErrDamaged = errors.New("damaged")
	// ErrUnsupported: a format or place that vfix recognizes but does not handle.
	ErrUnsupported = errors.New("not supported")
)

// Hinted is an error with a hint. The command prints Hint on a separate line below the error.
type Hinted interface {
	error
	Hint() string
}

// Hint is an error with a hint: see With.
type Hint struct {
	error
	hint string
}

func (h Hint) Hint() string  { return h.hint }
func (h Hint) Unwrap() error { return h.error }

// HintOf is the hint that err carries, "" for none.
func HintOf(err error) string {
	var h Hinted
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// With gives err a hint; nil stays nil.
func With(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return Hint{err, fmt.Sprintf(format, args...)}
}

// typed is an error with a text of its own that errors.Is also finds under kind.
type typed struct {
	error
	kind error
}

func (t typed) Is(target error) bool { return target == t.kind }
func (t typed) Unwrap() error        { return errors.Unwrap(t.error) }

// Errorf makes an error of a kind above whose text is the format alone. %w wraps, as fmt.Errorf does.
func Errorf(kind error, format string, args ...any) error {
	return typed{fmt.Errorf(format, args...), kind}
}

// Damaged is Errorf(ErrDamaged, …).
func Damaged(format string, args ...any) error { return Errorf(ErrDamaged, format, args...) }

// Tried is the error for something that was found in none of several places. The command prints a line for each.
type Tried struct {
	Name   string
	Places []error
}

func (t *Tried) Error() string {
	s := t.Head()
	for i, err := range t.Places {
		s += map[bool]string{true: ": ", false: "; "}[i == 0] + err.Error()
	}
	return s
}

// Head is the error without the places.
func (t *Tried) Head() string { return t.Name + ": neither a file nor an image" }

func (t *Tried) Unwrap() []error { return t.Places }
