// Which configuration is in force. A file that cannot be read, or is invalid, changes nothing: the last good
// one stays in force, and without one the strictest. The same goes for a removed file: to get the defaults
// back, write {} to it, or run 'vfix uninstall'. A mount that is missing, a ConfigMap that was renamed and an
// unfinished roll-out look the same as a removed file, and must not open a node.

package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"vfix.dev/vfix/host/starts"
)

// InForce is the configuration in force, and why.
type InForce struct {
	Config
	Source starts.Source
	// Err is why the file is not in force: nil for starts.FromFile and starts.Defaults.
	Err error

	Path string // of the file

	state string
	text  []byte // of the file that is in force
}

// closed is the strictest configuration: everything is patched, or does not start.
var closed = Config{FailClosed: true}

// Load finds what is in force and changes nothing. named says that somebody typed the path: then the file must be
// there. state is the directory of the cache as it was typed, "" for the usual one.
func Load(path string, named bool, state string) InForce {
	path = cmp.Or(path, ConfigFile)
	state = cmp.Or(state, ownDir())
	f := InForce{Source: starts.FromFile, Path: path, state: state}
	if f.Config, f.text, f.Err = Read(path); f.Err == nil {
		f.Err = rootsAlone(path)
	}
	if f.Err == nil {
		return f
	}
	gone := errors.Is(f.Err, fs.ErrNotExist)
	last, err := lastGood(state, path)
	switch {
	case err == nil && gone && last == (Config{}),
		gone && !named && errors.Is(err, fs.ErrNotExist):
		return InForce{Source: starts.Defaults, Path: path, state: state}
	case err == nil:
		f.Config, f.Source = last, starts.LastGood
	default:
		if !errors.Is(err, fs.ErrNotExist) {
			f.Err = errors.Join(f.Err, fmt.Errorf("the last good configuration: %w", err))
		}
		f.Config, f.Source = closed, starts.ClosedDefault
	}
	return f
}

// Keep remembers a file that is in force as the last good one.
func (f *InForce) Keep() error {
	if f.Source != starts.FromFile {
		return nil
	}
	if err := keep(f.state, f.Path, f.text); err != nil {
		return fmt.Errorf("%s: not kept as the last good configuration: %w", f.Path, err)
	}
	return nil
}

// Why is the message about the source, "" if the file or the defaults are in force.
func (f *InForce) Why() string {
	switch f.Source {
	case starts.LastGood:
		return fmt.Sprintf("%v: the last good configuration is in force", f.Err)
	case starts.ClosedDefault:
		return fmt.Sprintf("%v: no earlier configuration is known, so fail_closed is in force", f.Err)
	}
	return ""
}
