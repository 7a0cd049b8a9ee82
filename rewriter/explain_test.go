package rewriter

import "testing"

// The texts are those of objdump 2.40.
func TestListingText(t *testing.T) {
	for _, c := range []struct {
		code string
		want string
	}{
		{"\x48\xc7\xc0\x00\x04\x60\xff", "mov $0xffffffffff600400,%rax"},
		{"\xff\xd0", "call *%rax"},
		{"\x48\x83\xec\x08", "sub $0x8,%rsp"},
		{"\x64\x48\x03\x14\x25\x00\x00\x00\x00", "add %fs:0x0,%rdx"},
		{"\x64\x48\x89\x04\x25\x00\x00\x00\x00", "mov %rax,%fs:0x0"},
		{"\x64\x48\x8b\x04\x25\x28\x00\x00\x00", "mov %fs:0x28,%rax"},
		{"\xf3\x0f\x1e\xfa", "endbr64"},
		{"\xc3", "ret"},
	} {
		before, _ := Listing([]byte(c.code), []byte(c.code), 0x1000)
		if len(before) != 1 || before[0].Text != c.want {
			t.Errorf("% x: got %+v, want %s", c.code, before, c.want)
		}
	}
}
