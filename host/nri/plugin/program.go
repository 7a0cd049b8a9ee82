// The program of the hook, and its configuration: files in a directory that this process and the engine see
// under the same path.

package plugin

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"

	"vfix.dev/vfix/host/policy"
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
	return policy.Put(path, data, mode)
}

// install writes the program.
func install(dir string, program []byte) error {
	const readable, executable = 0o755, 0o755
	if err := os.MkdirAll(dir, readable); err != nil {
		return err
	}
	return put(filepath.Join(dir, programName), program, executable)
}

// handOn gives the hook the configuration that is in force: it decides as this process does.
func handOn(c policy.Config, dir string) error {
	const readable = 0o644
	text, err := c.Bytes()
	if err != nil {
		return err
	}
	return put(filepath.Join(dir, configName), text, readable)
}
