package find

import (
	"bytes"
	"testing"
)

// Named finds each kind of reference at each place in its buffer, and no other bytes of an address.
func TestNamed(t *testing.T) {
	const size, buffer = 300, 100
	for text, want := range map[string]bool{
		"\x48\xc7\xc0\x00\x04\x60\xff":             true,  // mov $0xffffffffff600400,%rax
		"\x48\xb8\x00\x08\x60\xff\xff\xff\xff\xff": true,  // movabs
		"\x68\x00\x00\x60\xff":                     true,  // push
		"\x48\x3d\x00\x00\x60\xff":                 true,  // cmp
		"\x48\xc7\x44\x24\x08\x00\x04\x60\xff":     true,  // mov to memory
		"\x00\x04\x60\xff\xff\xff\xff\xff":         true,  // a word
		"\xe8\x00\x04\x60\xff":                     false, // a call with this displacement
		"\x48\xc7\xc0\x00\x01\x60\xff":             false,
		"\x48\xc7\xc0\x00\x04\x61\xff":             false,
		"\x48\xc7\xc0\x01\x04\x60\xff":             false,
	} {
		for at := 0; at <= size-len(text); at++ {
			b := bytes.Repeat([]byte{0x90}, size)
			copy(b[at:], text)
			if got, err := Named(bytes.NewReader(b), size, make([]byte, buffer)); got != want || err != nil {
				t.Fatalf("% x at %d: got %v, %v, want %v", text, at, got, err, want)
			}
		}
	}
}
