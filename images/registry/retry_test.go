package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"vfix.dev/vfix/images/registry"
	"vfix.dev/vfix/tests/imagetest"
)

// A request is repeated after temporary errors and answers, if its body can be read again, as often as the policy
// says; all answers but the last are closed.
func TestTries(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	again, once := func() io.Reader { return strings.NewReader("body") }, func() io.Reader { return io.MultiReader(strings.NewReader("body")) }
	for _, c := range []struct {
		name    string
		host    string // reg.example where empty
		body    func() io.Reader
		answers []any // statuses and errors
		want    any   // status or error
		tries   int
		notes   string
	}{
		{name: "good", answers: []any{200}, want: 200, tries: 1},
		{name: "better", answers: []any{503, 429, 200}, want: 200, tries: 3, notes: "registry reg.example: 503 Service Unavailable: next try in 1s|registry reg.example: 429 Too Many Requests: next try in 2s"},
		{name: "never", answers: []any{502}, want: 502, tries: 3, notes: "registry reg.example: 502 Bad Gateway: next try in 1s|registry reg.example: 502 Bad Gateway: next try in 2s"},
		{name: "refused", answers: []any{403}, want: 403, tries: 1},
		{name: "hangs up", answers: []any{io.EOF, 200}, want: 200, tries: 2, notes: "registry reg.example: EOF: next try in 1s"},
		{name: "always hangs up", answers: []any{io.EOF}, want: io.EOF, tries: 3, notes: "registry reg.example: EOF: next try in 1s|registry reg.example: EOF: next try in 2s"},
		{name: "an error that stays", answers: []any{errFault}, want: errFault, tries: 1},
		{name: "with a body", body: again, answers: []any{503, 200}, want: 200, tries: 2, notes: "registry reg.example: 503 Service Unavailable: next try in 1s"},
		{name: "with a body that is read once", body: once, answers: []any{503, 200}, want: 503, tries: 1},
		{name: "with a body that is read once, hangs up", body: once, answers: []any{io.EOF, 200}, want: io.EOF, tries: 1},
		{name: "connection refused", answers: []any{refused, 200}, want: 200, tries: 2, notes: "registry reg.example: dial: connection refused: next try in 1s"},
		{name: "connection refused here", host: "127.0.0.1:5000", answers: []any{refused, 200}, want: refused, tries: 1},
		{name: "hangs up here", host: "127.0.0.1:5000", answers: []any{io.EOF, 200}, want: 200, tries: 2, notes: "registry 127.0.0.1:5000: EOF: next try in 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				open, tries := 0, 0
				next := imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
					a := c.answers[min(tries, len(c.answers)-1)]
					tries++
					if req.Body != nil {
						if b, err := io.ReadAll(req.Body); err != nil || string(b) != "body" {
							t.Errorf("sent %q, %v", b, err)
						}
					}
					if err, ok := a.(error); ok {
						return nil, err
					}
					open++
					return &http.Response{StatusCode: a.(int), Body: &counted{strings.NewReader("answer"), &open}, Request: req}, nil
				})
				if c.host == "" {
					c.host = "reg.example"
				}
				var body io.Reader
				if c.body != nil {
					body = c.body()
				}
				notes, meter := &imagetest.Notes{}, &registry.Meter{}
				// The random part of a pause is a quarter at most, and does not show where the pause is rounded.
				o := registry.Options{Progress: notes, Meter: meter, Retry: registry.RetryPolicy{Tries: 3, First: time.Second, Most: time.Minute}}
				req := imagetest.Must[*http.Request](t)(http.NewRequest("PUT", "https://"+c.host+"/v2/x", body))
				resp, err := registry.Retrier(next, o).RoundTrip(req)
				switch want := c.want.(type) {
				case error:
					if !errors.Is(err, want) || resp != nil {
						t.Errorf("got %v, %v, want %v", resp, err, want)
					}
				case int:
					if err != nil || resp.StatusCode != want {
						t.Fatalf("got %v, %v, want %d", resp, err, want)
					}
					if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "answer" {
						t.Errorf("got %q, %v", b, err)
					}
					resp.Body.Close()
				}
				if got := inSeconds(notes.Text); got != c.notes || tries != c.tries || meter.Total().Retries != int64(tries-1) || open != 0 {
					t.Errorf("got %d tries, %d counted, %d answers are open, %q, want %d, %q", tries, meter.Total().Retries, open, got, c.tries, c.notes)
				}
			})
		})
	}
}

// inSeconds joins notes, with their pauses in whole seconds.
func inSeconds(notes []string) string {
	all := make([]string, len(notes))
	for n, text := range notes {
		before, after, _ := strings.Cut(text, "next try in ")
		pause, err := time.ParseDuration(after)
		if err != nil {
			after = err.Error()
		} else {
			after = pause.Truncate(time.Second).String()
		}
		all[n] = before + "next try in " + after
	}
	return strings.Join(all, "|")
}

// The end of a command ends its waits, with its reason; an ended one makes no further try.
func TestTriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		next := imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
			tries++
			return &http.Response{StatusCode: 503, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
		})
		o := registry.Options{Retry: registry.RetryPolicy{Tries: 3, First: time.Minute}}
		why := errors.New("stopped by hand")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { end(why) })
		began := time.Now()
		req := imagetest.Must[*http.Request](t)(http.NewRequestWithContext(ctx, "GET", "https://reg.example/", nil))
		if resp, err := registry.Retrier(next, o).RoundTrip(req); !errors.Is(err, why) || resp != nil || tries != 1 || time.Since(began) != time.Second {
			t.Errorf("got %v, %v after %v and %d tries", resp, err, time.Since(began), tries)
		}
		tries = 0
		notes := &imagetest.Notes{}
		o.Progress = notes
		if resp, err := registry.Retrier(next, o).RoundTrip(req); err != nil || resp.StatusCode != 503 || tries != 1 || len(notes.Text) > 0 {
			t.Errorf("ended before: got %v, %v, %d tries, %q", resp, err, tries, notes.Text)
		}
	})
}

// The pauses, of which a fourth at most is random.
func TestPauses(t *testing.T) {
	p := registry.RetryPolicy{Tries: 5, First: 4 * time.Second, Most: time.Minute}
	longest := map[int]time.Duration{}
	for range 200 {
		for try, least := range map[int]time.Duration{1: 4 * time.Second, 2: 8 * time.Second, 3: 16 * time.Second, 4: 32 * time.Second} {
			wait, ok := p.Pause(try, nil)
			if !ok || wait < least || wait > least*5/4 {
				t.Fatalf("after try %d: got %v, %v", try, wait, ok)
			}
			longest[try] = max(longest[try], wait-least)
		}
	}
	for try, l := range longest {
		if l < 500*time.Millisecond<<(try-1) {
			t.Errorf("after try %d: the random part is %v at most", try, l)
		}
	}
	for after, want := range map[string]time.Duration{"60": time.Minute, "61": -1, "3": 4 * time.Second, "0": 4 * time.Second, "2147483647": -1} {
		wait, ok := p.Pause(1, &http.Response{Header: http.Header{"Retry-After": {after}}})
		if ok != (want >= 0) || ok && wait != want {
			t.Errorf("%s: got %v, %v, want %v", after, wait, ok, want)
		}
	}
}

// The login that a registry requires is asked for once for each address, unless the answer is an error; no answer is
// left open.
func TestPingsOnce(t *testing.T) {
	open, sent, status := 0, 0, 503
	next := imagetest.RoundTrip(func(req *http.Request) (*http.Response, error) {
		sent++
		if status == 0 {
			return nil, errFault
		}
		open++
		return &http.Response{StatusCode: status, Header: http.Header{"X": {req.URL.Host}}, Body: &counted{bytes.NewReader(nil), &open}, Request: req}, nil
	})
	p := registry.Pings(next)
	for n, c := range []struct {
		url    string
		status int
		sent   int // in all
		closed bool
	}{
		{"https://a.example/v2/", 503, 1, false}, {"https://a.example/v2/", 0, 2, true}, {"https://a.example/v2/", 401, 3, true}, {"https://a.example/v2/", 503, 3, true},
		{"http://a.example/v2/", 200, 4, true}, {"https://b.example/v2/", 200, 5, true}, {"https://b.example/v2/", 503, 5, true},
		{"https://b.example/v2/x", 200, 6, false}, {"https://b.example/v2/x", 200, 7, false},
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			status = c.status
			before := open
			resp, err := p.RoundTrip(get(t, c.url))
			if (err != nil) != (c.status == 0) || sent != c.sent || (open == before) != c.closed {
				t.Fatalf("got %v, %v, %d requests, %d open", resp, err, sent, open-before)
			}
			if err == nil && (resp.Header.Get("X") != resp.Request.URL.Host || resp.Request.URL.String() != c.url) {
				t.Errorf("got the answer of %s to %s", resp.Header.Get("X"), resp.Request.URL)
			}
		})
	}
}
