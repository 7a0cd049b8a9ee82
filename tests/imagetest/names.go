package imagetest

import (
	"context"
	"net"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Names has the resolver of this process know names (with a dot at the end) by one IPv4 address each, and no others.
func Names(t testing.TB, names map[string]string) {
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go answer(there, names)
		return here, nil
	}}
}

// answer answers one question. The resolver takes a pipe for TCP, as it does not keep packets apart, and there a length is before
// each message (RFC 1035, 4.2.2).
func answer(c net.Conn, names map[string]string) {
	defer c.Close()
	query := make([]byte, 2+512)
	n, err := c.Read(query)
	if err == nil && n == 2 {
		var more int
		more, err = c.Read(query[n:])
		n += more
	}
	var p dnsmessage.Parser
	h, perr := p.Start(query[2:max(2, n)])
	q, qerr := p.Question()
	if err != nil || perr != nil || qerr != nil {
		return
	}
	h.Response, h.Authoritative = true, true
	m := dnsmessage.Message{Header: h, Questions: []dnsmessage.Question{q}}
	switch address, known := names[q.Name.String()]; {
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
			Body:   &dnsmessage.AResource{A: [4]byte(net.ParseIP(address).To4())},
		}}
	}
	if raw, err := m.AppendPack(make([]byte, 2)); err == nil {
		raw[0], raw[1] = byte((len(raw)-2)>>8), byte(len(raw)-2)
		c.Write(raw)
	}
}
