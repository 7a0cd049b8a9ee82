// The log of vfix-runtime, in the file and format that the engine chose on the command line.

package ociruntime

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// logger writes to the log of the runtime: the file of --log in the format of --log-format, else stderr. Engines
// read lines in the form of logrus (level, msg, time) from that file for messages to their users.
type logger struct {
	file   string // "" for stderr
	json   bool
	stderr io.Writer
}

func newLogger(c *command, stderr io.Writer) *logger {
	return &logger{file: c.log, json: c.logFormat == "json", stderr: stderr}
}

// logMode is the mode of runc's log file (main.go, setupLogrus… os.OpenFile).
const logMode = 0o644

// line writes one line of a level, "warning" or "error"; to stderr if the file cannot be written.
func (l *logger) line(level, text string) {
	text = "vfix: " + OneLine(text)
	if l.file != "" {
		f, err := os.OpenFile(l.file, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, logMode)
		if err == nil {
			defer f.Close()
			if _, err = f.WriteString(l.format(level, text)); err == nil {
				return
			}
		}
	}
	fmt.Fprintln(l.stderr, text)
}

// OneLine returns a text without line breaks and terminal escapes, as the names in it come from an image.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ReplaceAll(text, "\n", "; "))
}

// format returns one line in the form of logrus.
func (l *logger) format(level, text string) string {
	now := time.Now().UTC().Format(time.RFC3339) // UTC, so that no time zone file is read
	if !l.json {
		return fmt.Sprintf("time=%q level=%s msg=%q\n", now, level, text)
	}
	b, err := json.Marshal(struct {
		Level string `json:"level"`
		Msg   string `json:"msg"`
		Time  string `json:"time"`
	}{level, text, now})
	if err != nil {
		return ""
	}
	return string(b) + "\n"
}
