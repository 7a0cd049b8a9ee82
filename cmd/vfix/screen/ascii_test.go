package screen

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestPlainASCII(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "C", true}, {"", "", "POSIX", true}, {"C", "", "de_DE.UTF-8", true}, {"", "C", "C.UTF-8", true},
		{"", "", "", false}, {"", "", "C.UTF-8", false}, {"C.UTF-8", "", "C", false},
	} {
		got := PlainASCII(func(name string) string {
			return map[string]string{"LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang}[name]
		})
		if got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
	var b bytes.Buffer
	const text = "1 µs … café \U0001f600\n"
	if n, err := (ascii{&b}).Write([]byte(text)); err != nil || n != len(text) || b.String() != `1 us ... caf\u00e9 \ud83d\ude00`+"\n" {
		t.Errorf("got %q, %d, %v", b.String(), n, err)
	}
	var back string
	if err := json.Unmarshal([]byte(InASCII(`"`+text[:len(text)-1]+`"`)), &back); err != nil || back != text[:len(text)-1] {
		t.Errorf("JSON: got %q, %v", back, err)
	}
}
