// The program of the hook, and its configuration: files in a directory that this process and the engine see
// under the same path.

package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	programName = "vfix-runtime"
	configName  = "runtime.json"
)

// put gives a file a content, in one step: an engine may be executing the old one.
func put(path string, data []byte, mode fs.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone by then, where all went well
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// install writes the program.
func install(dir string, program []byte) error {
	const readable, executable = 0o755, 0o755
	if err := os.MkdirAll(dir, readable); err != nil {
		return err
	}
	return put(filepath.Join(dir, programName), program, executable)
}

// policyFrom hands the configuration on to the hook, byte for byte, and returns its bytes; no file is an
// empty one.
func policyFrom(file, dir string) ([]byte, error) {
	const readable = 0o644
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("{}\n"), nil
	}
	if err != nil {
		return nil, err
	}
	return text, put(filepath.Join(dir, configName), text, readable)
}
