// The outcome of a start: it is logged and recorded (package starts), and with fail_closed an unpatched container is
// refused.

package ociruntime

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
	"vfix.dev/vfix/internal/nodefile"
)

func newRecord(c *command, p *policy.InForce, o Options, real string) *starts.Record {
	return &starts.Record{
		Time: time.Now().UTC(), Vfix: o.Version, Container: c.container, Caller: callerName(), Runtime: real,
		Policy: starts.Policy{Source: p.Source, FailClosed: p.FailClosed, OptIn: p.OptIn},
		Files:  []starts.File{}, Problems: []starts.Problem{},
	}
}

// conclude logs and records the outcome of a start; err is why nothing could be done. Its own error keeps the
// container from starting. waits reports that the record waits until the runtime has created the container.
func conclude(c *command, r *starts.Record, err error, p *policy.InForce, log *logger) (waits bool, refused error) {
	warn := func(text string) {
		if text != "" {
			log.line("warning", text)
		}
	}
	if r.Outcome == handedOn && err == nil {
		if err := leave(r.Correct(starts.NotStarted, ""), waitingFile(c)); err != nil { // see recordStart
			warn("record: " + err.Error())
		}
		return true, nil
	}
	r.Settle(err, p.FailClosed)
	warn(p.Why())
	if err := p.Keep(); err != nil {
		warn(err.Error())
	}
	switch r.Outcome {
	case starts.Refused:
		refused = fmt.Errorf("%w: %s", errRefused, r.Reason)
	case starts.Unpatched:
		warn("nothing patched, the container starts as it is: " + r.Reason)
	case starts.Partial:
		warn("not patched: " + r.Why())
	}
	begun := r.Time
	r.Time = time.Now().UTC()
	r.Seconds.Total = r.Time.Sub(begun).Seconds()
	if r.Start != "" && refused == nil {
		if err = leave(r, waitingFile(c)); err == nil {
			return true, nil
		}
		warn("record: " + err.Error())
	}
	if err := (starts.Log{Record: p.RecordFile(), Metrics: p.Metrics}).Add(r); err != nil {
		warn(err.Error())
	}
	return false, refused
}

// waiting is the prefix of files with records of starts whose containers the runtime is creating. Files of
// containers that were not created are removed when the engine deletes the container or, if there are maxWaiting,
// after a day.
const (
	waiting    = "/run/vfix-start-"
	maxWaiting = 100
)

// waitingFile returns the path of a waiting record: container names are unique in the runtime's state directory.
func waitingFile(c *command) string {
	root := c.root
	if at, err := filepath.Abs(root); err == nil && root != "" {
		root = at
	}
	return fmt.Sprintf("%s%x.json", waiting, sha256.Sum256([]byte(root+"\x00"+c.container)))
}

func leave(r *starts.Record, path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if old, _ := filepath.Glob(waiting + "*"); len(old) >= maxWaiting {
		const day = 24 * time.Hour
		for _, name := range old {
			if fi, err := os.Lstat(name); err == nil && time.Since(fi.ModTime()) > day {
				os.Remove(name)
			}
		}
	}
	const private = 0o600
	return os.WriteFile(path, text, private)
}

// started is the hook after the container's creation, which records the start. An error would end the container.
func started(c *command, o Options) error {
	p := inForce(c)
	s, err := readState(o.Stdin)
	c.container = s.ID
	if err == nil {
		err = recordStart(&p, waitingFile(c))
	}
	return onlyRefusal(err, newLogger(c, o.Stderr))
}

// onlyRefusal logs any other error of recordStart.
func onlyRefusal(err error, log *logger) error {
	if err != nil && !errors.Is(err, errRefused) {
		log.line("warning", "record: "+err.Error())
		return nil
	}
	return err
}

// recordStart records a start that waits, if one does. A start that waits for its hook has a runtime that executes no
// createRuntime hooks (runc before 1.0.0-rc92, crun before 0.14): nothing is examined.
func recordStart(p *policy.InForce, path string) error {
	text, err := nodefile.Text(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	var r starts.Record
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if r.Outcome == starts.NotStarted {
		r.Settle(fmt.Errorf("runtime %s: too old, or changed: it has not executed the createRuntime hook that examines the mounts", r.Runtime), r.Policy.FailClosed)
	}
	err = starts.Log{Record: p.RecordFile(), Metrics: p.Metrics}.Add(&r)
	if r.Outcome == starts.Refused {
		return fmt.Errorf("%w: %s", errRefused, r.Reason) // the file stays, for another attempt
	}
	return errors.Join(err, os.Remove(path))
}

// callerName returns the name of the process that called vfix-runtime: containerd-shim, conmon, …
func callerName() string {
	b, err := nodefile.Text("/proc/" + strconv.Itoa(os.Getppid()) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// imageNames are the annotations with the name of a container's image, from containerd's CRI plugin, CRI-O and
// containers/common.
var imageNames = []string{"io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName", "org.opencontainers.image.ref.name"}

func imageOf(annotations map[string]string) string {
	for _, name := range imageNames {
		if image := annotations[name]; image != "" {
			return image
		}
	}
	return ""
}
