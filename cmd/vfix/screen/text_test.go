// Text for people.

package screen

import "testing"

func TestHumanSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 220 << 20: "220.0 MiB",
		3 << 30: "3.0 GiB", 2 << 40: "2.0 TiB", 5000 << 40: "5000.0 TiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
