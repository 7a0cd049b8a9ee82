package schema1_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"vfix.dev/vfix/images/schema1"
	"vfix.dev/vfix/internal/hinterr"
)

func manifest(layers ...string) string {
	var sums, history []string
	for _, l := range layers {
		sums = append(sums, fmt.Sprintf(`{"blobSum":"sha256:%064x"}`, len(sums)))
		history = append(history, fmt.Sprintf(`{"v1Compatibility":%q}`, l))
	}
	return fmt.Sprintf(`{"schemaVersion":1,"fsLayers":[%s],"history":[%s]}`, strings.Join(sums, ","), strings.Join(history, ","))
}

// link is an image JSON; a parent of 0 means no parent.
func link(id, parent int) string {
	text := fmt.Sprintf(`{"id":"%064x"`, id)
	if parent > 0 {
		text += fmt.Sprintf(`,"parent":"%064x"`, parent)
	}
	return text + "}"
}

// A manifest whose layers are no chain is damaged. What was read from good ones is tested in images/source.
func TestChain(t *testing.T) {
	for text, want := range map[string]string{
		manifest(link(2, 1), link(1, 0)):             "",
		manifest(link(2, 1), link(1, 0), link(1, 0)): "", // twice in a row, as some old registries have it
		manifest():                                   "got 0 layers",
		manifest(link(2, 3), link(1, 0)):             "got the parent",
		manifest(link(1, 2), link(2, 1), link(1, 0)): "there twice",
		manifest(`{"id":"x"}`):                       "not an image ID",
		manifest("null"):                             "not an image ID",
		`{"fsLayers":[{"blobSum":"x"}],"history":[{"v1Compatibility":"{}"}]}`: "not an image ID",
		`{"signatures":[{"protected":"!"}]}`:                                  "protected header",
		`{"signatures":[{"protected":"eyJmb3JtYXRMZW5ndGgiOjk5OTl9"}]}`:       "outside of the manifest",
		"[]": "schema 1 manifest",
	} {
		chain, _, err := schema1.Parse([]byte(text))
		if want == "" {
			if err != nil || len(chain) != 2 {
				t.Errorf("%s: got %+v, %v", text, chain, err)
			}
		} else if !errors.Is(err, hinterr.ErrDamaged) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(manifest(link(2, 1), link(1, 0))))
	f.Add([]byte(`{"signatures":[{"protected":"e30"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if chain, _, err := schema1.Parse(raw); err == nil {
			schema1.Assemble(chain, func(*schema1.Link) error { return nil })
		}
	})
}
