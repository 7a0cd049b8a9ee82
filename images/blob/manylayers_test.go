package blob_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vfix.dev/vfix/images/blob"
)

// Asking each layer for its diff ID costs what there are layers, not their square: an image of 10,000 layers
// took minutes.
func TestManyLayers(t *testing.T) {
	const layers, each = 2000, 50 // allocations a layer, in all
	var ids []string
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.DockerManifestSchema2}
	for n := range layers {
		hex := fmt.Sprintf("%064x", n)
		ids = append(ids, fmt.Sprintf("%q", "sha256:"+hex))
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.DockerLayer, Digest: v1.Hash{Algorithm: "sha256", Hex: hex}})
	}
	config := fmt.Sprintf(`{"rootfs":{"type":"layers","diff_ids":[%s]}}`, strings.Join(ids, ","))
	allocs := testing.AllocsPerRun(1, func() {
		img, err := blob.MadeImage(m, []byte(config), blob.MemBlobs{})
		if err != nil {
			t.Fatal(err)
		}
		ls, err := img.Layers()
		if err != nil || len(ls) != layers {
			t.Fatalf("%d layers, %v", len(ls), err)
		}
		for n, l := range ls {
			if id, err := l.DiffID(); err != nil || id != m.Layers[n].Digest {
				t.Fatalf("layer %d: %v, %v", n, id, err)
			}
		}
	})
	if allocs > layers*each {
		t.Errorf("%.0f allocations for %d layers, want at most %d", allocs, layers, layers*each)
	}
}
