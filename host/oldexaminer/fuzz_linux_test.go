package oldexaminer

import (
	"bytes"
	"encoding/json"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzReceive: a message is what was sent, or an error; one that is larger than any is never taken
// for its first part.
func FuzzReceive(f *testing.F) {
	for _, message := range []string{`{}`, `{"size":1,"sites":2,"left":"x","stay":3}`, `{"error":"x","too_much":true}`, `{"memory":1,"time":2,"fixes":["java-cgroups"]}`, "", "{", `{"size":1e400}`} {
		f.Add([]byte(message))
	}
	f.Add(bytes.Repeat([]byte(" "), maxMessage+1))
	f.Fuzz(func(t *testing.T, message []byte) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[0])
		defer unix.Close(pair[1])
		for _, v := range []any{&bounds{}, &hello{}, &request{}, &answer{}} {
			if unix.Send(pair[0], message, 0) != nil {
				return // larger than the socket takes
			}
			files, err := receive(pair[1], make([]byte, maxMessage), v, maxFiles)
			if len(files) > 0 {
				t.Errorf("got %d files, and none was sent", len(files))
			}
			if ok := len(message) > 0 && len(message) <= maxMessage && json.Valid(message); err == nil && !ok {
				t.Errorf("%q: got %+v", message, v)
			}
		}
	})
}
