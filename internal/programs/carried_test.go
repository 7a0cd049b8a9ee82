package programs

import (
	"bytes"
	"compress/gzip"
	"testing"
)

func TestIn(t *testing.T) {
	packed := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	all := CarriedIn([]byte("vfix\nVfix-runtime, compressed\n" + packed("one") + "\x1f\x8b rest\nVfix-nri, compressed\n" + packed("two") + "rest Vfix-bad, compressed\nx"))
	if len(all) != 3 || all[0].Name != "vfix-runtime" || all[1].Name != "vfix-nri" {
		t.Fatalf("got %v", all)
	}
	for i, want := range []string{"one", "two"} {
		if got, err := all[i].Unpack(3); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", all[i].Name, got, err)
		}
		if _, err := all[i].Unpack(2); err == nil {
			t.Errorf("%s: 3 bytes are no more than 2", all[i].Name)
		}
	}
	if _, err := all[2].Unpack(3); err == nil {
		t.Error("what is not compressed is unpacked")
	}
	if got := CarriedIn([]byte("vfix-runtime, compressed\n")); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}
