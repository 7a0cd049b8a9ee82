// The record of a start: see package starts.

package ociruntime

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"vfix.dev/vfix/host/policy"
	"vfix.dev/vfix/host/starts"
)

func newRecord(c *command, p *policy.InForce, o Options, real string) *starts.Record {
	return &starts.Record{
		Time: time.Now().UTC(), Vfix: o.Version, Container: c.container, Caller: callerName(), Runtime: real,
		Policy: starts.Policy{Source: p.Source, FailClosed: p.FailClosed, OptIn: p.OptIn},
		Files:  []starts.File{}, Problems: []starts.Problem{},
	}
}

// conclude says and records what became of a start, just before the real runtime takes over; err is why nothing
// could be done. Its own error keeps the container from starting.
func conclude(r *starts.Record, err error, p *policy.InForce, log *logger) error {
	if r.Outcome == handedOn && err == nil {
		return nil
	}
	warn := func(text string) {
		if text != "" {
			log.line("warning", text)
		}
	}
	r.Settle(err, p.FailClosed)
	warn(p.Why())
	if err := p.Keep(); err != nil {
		warn(err.Error())
	}
	var refused error
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
	if err := (starts.Log{Record: p.RecordFile(), Metrics: p.Metrics}).Add(r); err != nil {
		warn(err.Error())
	}
	return refused
}

// callerName is the name of the process that called vfix-runtime: containerd-shim, conmon, …
func callerName() string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// imageNames are annotations that engines give a container of an image: containerd's CRI plugin,
// CRI-O, containers/common.
var imageNames = []string{"io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName", "org.opencontainers.image.ref.name"}

func imageOf(annotations map[string]string) string {
	for _, name := range imageNames {
		if image := annotations[name]; image != "" {
			return image
		}
	}
	return ""
}
