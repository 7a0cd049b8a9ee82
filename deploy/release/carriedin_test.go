package main

import (
	"bytes"
	"compress/gzip"
	"testing"
)

func TestCarriedIn(t *testing.T) {
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
	all := carriedIn([]byte("vfix\nVfix-runtime, compressed\n" + packed("one") + "\x1f\x8b rest\nVfix-nri, compressed\n" + packed("two") + "rest Vfix-bad, compressed\nx"))
	if len(all) != 3 || all[0].name != "vfix-runtime" || all[1].name != "vfix-nri" {
		t.Fatalf("got %v", all)
	}
	for i, want := range []string{"one", "two"} {
		if got, err := all[i].unpack(); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", all[i].name, got, err)
		}
	}
	if _, err := all[2].unpack(); err == nil {
		t.Error("what is not compressed is unpacked")
	}
	if got := carriedIn([]byte("vfix-runtime, compressed\n")); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}
