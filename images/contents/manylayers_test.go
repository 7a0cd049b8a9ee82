package contents_test

import (
	"fmt"
	"testing"

	"vfix.dev/vfix/tests/imagetest"
)

// The work for an image grows with its layers, not with their square: a scan of 10,000 layers takes 20 s of processor time
// and 145 MB of memory, one of 2,500 takes 3.6 s.
func TestManyLayers(t *testing.T) {
	allocs := map[int]float64{}
	const few, many = 100, 400
	for _, n := range []int{few, many} {
		layers := [][]imagetest.TestMember{{imagetest.LegacyM("old", "x")}}
		for i := range n {
			layers = append(layers, []imagetest.TestMember{imagetest.FileM(fmt.Sprintf("f%d", i), []byte("x"))})
		}
		img := imagetest.Open(t, imagetest.StoreOCI(t, imagetest.Stack(t, layers...))).Image
		allocs[n] = testing.AllocsPerRun(1, func() {
			if f, _, err := imagetest.ScanImage(t, img); err != nil || len(f.Files) != 1 {
				t.Fatal(err)
			}
		})
	}
	const most = 1.3 // for each layer of many, in what one of few takes
	if ratio := allocs[many] / many / (allocs[few] / few); ratio > most {
		t.Errorf("%.0f allocations for %d layers, %.0f for %d: a layer of many takes %.2f times one of few", allocs[few], few, allocs[many], many, ratio)
	}
}
