// The number of requests and bytes to and from each host.

package registry

import (
	"sync"
	"sync/atomic"
)

// Count is the traffic of one host.
type Count struct {
	Requests, Retries int64
	Received, Sent    int64 // of bodies, in bytes
}

// Meter counts by host. It is safe for concurrent use; a nil one counts nothing.
type Meter struct{ hosts sync.Map } // of *counter

type counter struct{ requests, retries, received, sent atomic.Int64 }

func (m *Meter) of(host string) *counter {
	if m == nil {
		return &counter{}
	}
	c, _ := m.hosts.LoadOrStore(host, &counter{})
	return c.(*counter)
}

// ByHost returns the counts so far, by host.
func (m *Meter) ByHost() map[string]Count {
	all := map[string]Count{}
	if m == nil {
		return all
	}
	m.hosts.Range(func(host, c any) bool {
		n := c.(*counter)
		all[host.(string)] = Count{n.requests.Load(), n.retries.Load(), n.received.Load(), n.sent.Load()}
		return true
	})
	return all
}

// Total returns the sum over all hosts.
func (m *Meter) Total() Count {
	var sum Count
	for _, c := range m.ByHost() {
		sum.Requests, sum.Retries = sum.Requests+c.Requests, sum.Retries+c.Retries
		sum.Received, sum.Sent = sum.Received+c.Received, sum.Sent+c.Sent
	}
	return sum
}
