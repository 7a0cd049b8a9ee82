package ociruntime

import (
	"bytes"
	"testing"
)

func TestLogIsOneLine(t *testing.T) {
	var b bytes.Buffer
	newLogger(&command{}, &b).line("warning", "/a\x1b[2J\rb\nc\u009b\xff é: why")
	if got, want := b.String(), "vfix: /a?[2J?b; c?\ufffd é: why\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
