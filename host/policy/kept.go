// The last good configuration of a file: a separate file beside the cache, which only root can read and write.

package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"vfix.dev/vfix/internal/jsonobject"
	"vfix.dev/vfix/internal/nodefile"
)

// keptFormat is the first number of the format.
const keptFormat = 1

// kept is the content of such a file.
type kept struct {
	Format int    `json:"format"`
	Path   string `json:"path"`   // of the configuration file
	Config string `json:"config"` // its text
}

// keptDir is a directory beside those of the cache's layouts.
const keptDir = "policy"

func keptPath(state, path string) string {
	const digits = 8 // bytes of the sum in the name
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Join(state, keptDir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(path)))[:2*digits]+".json")
}

// lastGood is the kept copy of a configuration file; fs.ErrNotExist without one.
func lastGood(state, path string) (Config, error) {
	text, err := keptText(state, path)
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(text)
	if err != nil {
		return c, fmt.Errorf("%s: %w", keptPath(state, path), err)
	}
	return c, nil
}

func keptText(state, path string) ([]byte, error) {
	at := keptPath(state, path)
	fi, err := os.Lstat(at)
	if err == nil {
		err = ownedAlone(filepath.Dir(at), fi)
	}
	if errors.Is(err, fs.ErrPermission) && Rootless() {
		return nil, fs.ErrNotExist // another user's
	}
	if err != nil {
		return nil, err
	}
	raw, err := nodefile.Read(at, maxConfig)
	if err != nil {
		return nil, err
	}
	var k kept
	if err := jsonobject.Strict(raw, &k, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if k.Format != keptFormat || keptPath(state, k.Path) != at {
		return nil, fmt.Errorf("%s: format %d of %s, want %d of %s", at, k.Format, k.Path, keptFormat, path)
	}
	return []byte(k.Config), nil
}

// keep writes it, unless it exists. Of several writers, the one that has read last writes last.
func keep(state, path string, text []byte) error {
	if old, err := keptText(state, path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	const private = 0o700
	at := keptPath(state, path)
	if err := os.MkdirAll(filepath.Dir(at), private); err != nil {
		if errors.Is(err, fs.ErrPermission) && Rootless() {
			return nil // a user without a directory of his own
		}
		return err
	}
	unlock, err := nodefile.Lock(filepath.Dir(at), 0) // its holder may be stopped
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil // another start keeps the one that it reads now
	}
	if err != nil {
		return err
	}
	defer unlock()
	if _, text, err = Read(path); err != nil {
		return nil // changed meanwhile; the next start sees to it
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(kept{Format: keptFormat, Path: abs, Config: string(text)})
	if err != nil {
		return err
	}
	const ownersAlone = 0o600
	return Put(at, raw, ownersAlone)
}

// Forget removes the kept copy of the configuration file of a root directory, which no longer has one.
func Forget(root, path string) error {
	err := os.Remove(filepath.Join(root, keptPath(DefaultCacheDir, path)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Put replaces the content of a file atomically and durably: others may be reading the old one.
func Put(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone by then, if all went well
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
