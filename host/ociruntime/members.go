// Where things are in JSON text that is known to be valid, so that the rest can stay as it is,
// byte for byte.

package ociruntime

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// member is one member of an object, or one element of an array: [start, end) is its value.
type member struct {
	name       string
	start, end int
}

// members lists the members of an object.
func members(v gjson.Result) (all []member, err error) {
	if !v.IsObject() {
		return nil, fmt.Errorf("no object at offset %d", v.Index)
	}
	v.ForEach(func(key, value gjson.Result) bool {
		m := at(value)
		// The name as the runtime decodes it: gjson differs in what is not UTF-8.
		err = json.Unmarshal([]byte(key.Raw), &m.name)
		all = append(all, m)
		return err == nil
	})
	return all, err
}

// elements lists the values of an array.
func elements(v gjson.Result) (all []member) {
	v.ForEach(func(_, value gjson.Result) bool {
		all = append(all, at(value))
		return true
	})
	return all
}

func at(v gjson.Result) member { return member{start: v.Index, end: v.Index + len(v.Raw)} }

// find returns the member of one name. Two of a name, or of names that differ in case, are
// an error: runtimes do not agree on which one counts.
func find(all []member, name string) (member, bool, error) {
	var got member
	n := 0
	for _, m := range all {
		if strings.EqualFold(m.name, name) {
			got = m
			n++
		}
	}
	if n > 1 || n == 1 && got.name != name {
		return got, false, fmt.Errorf("%q: written twice, or in another case: runtimes do not agree on what that means", name)
	}
	return got, n == 1, nil
}
