// The messages between the two processes: JSON, each one message of a SOCK_SEQPACKET socket. The file of a request is
// beside it.

package examiner

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"vfix.dev/vfix/rewriter/find"
)

// maxMessage bounds a message, in bytes: less than the usual buffer of a socket (net.core.wmem_default). A patch adds
// about 16 KiB.
const maxMessage = 128 << 10

// request is about one file.
type request struct {
	Size  int64      `json:"size"`
	Fixes []find.Fix `json:"fixes,omitempty"`
}

// answer is also the first message, which says that the process is confined.
type answer struct {
	Finding
	Error string `json:"error,omitempty"`
}

// send sends one message, with files beside it.
func send(fd int, v any, files ...int) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > maxMessage {
		return fmt.Errorf("message of %d bytes, more than %d", len(text), maxMessage)
	}
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	for {
		if err := unix.Sendmsg(fd, text, rights, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive waits for one message, and returns the file beside it; nil for none. The end of the other process is io.EOF.
func receive(fd int, v any) (file *os.File, err error) {
	const fdSize = 4
	rights, text := make([]byte, unix.CmsgSpace(fdSize)), make([]byte, maxMessage+1)
	n, k, flags, _, err := unix.Recvmsg(fd, text, rights, unix.MSG_CMSG_CLOEXEC)
	for errors.Is(err, unix.EINTR) {
		n, k, flags, _, err = unix.Recvmsg(fd, text, rights, unix.MSG_CMSG_CLOEXEC)
	}
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, io.EOF
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return nil, fmt.Errorf("message of more than %d bytes", maxMessage)
	}
	if messages, err := unix.ParseSocketControlMessage(rights[:k]); err == nil && len(messages) == 1 {
		if fds, err := unix.ParseUnixRights(&messages[0]); err == nil && len(fds) == 1 {
			file = os.NewFile(uintptr(fds[0]), "file")
		}
	}
	return file, json.Unmarshal(text[:n], v)
}
