// What is remembered of a start: see package starts.

package ociruntime

import (
	"os"
	"strconv"
	"strings"
	"time"

	"vfix.dev/vfix/host/starts"
)

func newRecord(c *command, config Config, o Options, real string) *starts.Record {
	return &starts.Record{
		Time: time.Now().UTC(), Vfix: o.Version, Container: c.container, Caller: callerName(), Runtime: real,
		Policy: starts.Policy{FailClosed: config.FailClosed, OptIn: config.OptIn},
		Files:  []starts.File{}, Problems: []starts.Problem{},
	}
}

// remember writes the record of a start that is over, just before the real runtime takes over.
func remember(r *starts.Record, bad error, config Config, log *logger) {
	switch {
	case bad != nil && config.FailClosed:
		r.Outcome, r.Reason = starts.Refused, bad.Error()
	case r.Outcome != "":
	case len(r.Files) > 0:
		r.Outcome = starts.Patched
	default:
		r.Outcome = starts.Clean
	}
	begun := r.Time
	r.Time = time.Now().UTC()
	r.Seconds.Total = r.Time.Sub(begun).Seconds()
	if err := (starts.Log{Record: config.record(), Metrics: config.Metrics}).Add(r); err != nil {
		log.line("warning", err.Error())
	}
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
