// The record: one line of JSON about each start.

package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// The results of a start.
const (
	Patched  = "patched"  // everything that was found is patched
	Clean    = "clean"    // nothing to patch
	Partial  = "partial"  // something is left: see Left
	Skipped  = "skipped"  // nothing was looked at: see Reason
	Disabled = "disabled" // by the configuration or an annotation
	Refused  = "refused"  // something is left, and the container must be patched whole
)

// Record is about one start of a container.
type Record struct {
	Time      time.Time `json:"time"`
	Vfix      string    `json:"vfix"` // version
	Container string    `json:"container"`
	Door      string    `json:"door"` // runtime or hook
	Result    string    `json:"result"`
	Reason    string    `json:"reason,omitempty"`
	// Patched are the files that the container has patched, those of an earlier start as well.
	Patched []string   `json:"patched,omitempty"`
	Left    []leftover `json:"left,omitempty"`
	// Omitted is how many names of Patched and Left are not in the line.
	Omitted int `json:"omitted,omitempty"`
	// NotExamined are mounts from this machine: volumes are not examined.
	NotExamined []string `json:"not_examined,omitempty"`
	Fallback    bool     `json:"fallback,omitempty"`
	Cache       string   `json:"cache,omitempty"` // hit, miss or none
	Examined    int      `json:"examined,omitempty"`
	Millis      float64  `json:"ms"`
}

const (
	// maxLine bounds a line, in bytes.
	maxLine = 32 << 10
	// maxRecord is the size at which the record is renamed, in bytes.
	maxRecord = 4 << 20
	oldSuffix = ".1"
)

// line returns the line of a record, with a line feed. The lists are cut until it is short enough: the names in them
// come from an image.
func (r Record) line() ([]byte, error) {
	for {
		text, err := json.Marshal(r)
		listed := len(r.Patched) + len(r.Left) + len(r.NotExamined)
		if err != nil || len(text) < maxLine || listed == 0 {
			return append(text, '\n'), err
		}
		r.Patched, r.Left, r.NotExamined = r.Patched[:len(r.Patched)/2], r.Left[:len(r.Left)/2], r.NotExamined[:len(r.NotExamined)/2]
		r.Omitted += listed - len(r.Patched) - len(r.Left) - len(r.NotExamined)
	}
}

// add appends a record to the file of a configuration.
func (c *Config) add(r Record) error {
	path := c.RecordPath()
	line, err := r.line()
	if err != nil {
		return err
	}
	const dirMode, fileMode = 0o700, 0o600
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	if fi, err := os.Lstat(path); err == nil && fi.Size() > maxRecord {
		if err := os.Rename(path, path+oldSuffix); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(line)
	return err
}
