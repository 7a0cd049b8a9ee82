package outcome_test

import (
	"slices"
	"testing"

	"github.com/tidwall/gjson"

	"vfix.dev/vfix/images/outcome"
	"vfix.dev/vfix/internal/jsonobject"
)

// TestColumns: a line of CSV has the fields of the JSON, in their order.
func TestColumns(t *testing.T) {
	i := outcome.Image{
		Item: outcome.Item{Line: 2, Source: "app:1"}, Status: outcome.Done, Before: true, LayerSize: 9,
		Hazards: []string{"a", "b"}, Unread: 7, Stored: "oci:x",
	}
	raw, err := jsonobject.Encode(i)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	gjson.ParseBytes(raw).ForEach(func(key, _ gjson.Result) bool {
		keys = append(keys, key.Str)
		return true
	})
	if got := outcome.Columns(); !slices.Equal(got, keys) {
		t.Errorf("got columns %q, want those of JSON, %q", got, keys)
	}
	want := []string{"2", "app:1", "", "done", "true", "", "", "", "0", "0", "0", "0", "9", "a; b", "", "", ""}
	if got := i.Cells(); !slices.Equal(got, want) {
		t.Errorf("got cells %q, want %q", got, want)
	}
}
