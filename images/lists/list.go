// Package lists rebuilds or scans the images of a list, and reports on them. A list is idempotent: an image whose DEST
// carries the label of the same base digest and the same options is done, and costs a look at both.
package lists

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"vfix.dev/vfix/images/source"
	"vfix.dev/vfix/internal/hinterr"
	"vfix.dev/vfix/internal/textutil"
)

// maxLine is the longest line of a list, in bytes: no name of an image or path is longer.
const maxLine = 64 << 10

// Item is a line of a list.
type Item struct {
	Line   int    `json:"line"` // in the list, the first being 1
	Source string `json:"source"`
	Dest   string `json:"dest"` // "" where the line has none
}

// Part is one of the parts of a list, the first being 0; the zero value is all of it.
type Part struct{ Index, Of int }

// has reports whether a line is in the part. A hash of the line decides, so that adding or removing a line moves no
// other one.
func (p Part) has(i Item) bool {
	if p.Of < 2 {
		return true
	}
	sum := sha256.Sum256([]byte(i.Source + " " + i.Dest))
	return binary.LittleEndian.Uint64(sum[:])%uint64(p.Of) == uint64(p.Index)
}

// Read reads a part of a list from a file, or from stdin for "-". A line is SOURCE or SOURCE DEST, separated by spaces
// or tabs. Empty lines are ignored, and so is a comment, which begins with a # at the start of a line or after a space.
// A duplicate line counts once. An invalid line is an error; a list without images as well.
func Read(name string, part Part) ([]Item, error) {
	in := os.Stdin
	if name != "-" {
		var err error
		if in, err = os.Open(name); err != nil {
			return nil, hinterr.With(err, "name a file with one image a line: see 'vfix help lists'")
		}
		defer in.Close()
	}
	all, err := parse(in)
	if err == nil && len(all) == 0 {
		err = hinterr.With(errors.New("no image in the list"), "a list has one image a line: see 'vfix help lists'")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var items []Item
	for _, i := range all {
		if part.has(i) {
			items = append(items, i)
		}
	}
	return items, nil
}

func parse(r io.Reader) (all []Item, err error) {
	sc := bufio.NewScanner(textutil.UTF8(r))
	sc.Buffer(nil, maxLine)
	seen := map[Item]bool{}
	for line := 1; sc.Scan(); line++ {
		i, err := parseLine(sc.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if i.Source == "" || seen[i] {
			continue
		}
		seen[i] = true
		i.Line = line
		all = append(all, i)
	}
	return all, sc.Err()
}

// parseLine splits a line; an empty one has no SOURCE.
func parseLine(text string) (i Item, err error) {
	words := strings.Fields(text)
	for n, w := range words {
		if strings.HasPrefix(w, "#") {
			words = words[:n]
			break
		}
	}
	if len(words) > 2 {
		return i, hinterr.With(fmt.Errorf("%d words, want SOURCE or SOURCE DEST", len(words)), "a list cannot contain paths with spaces")
	}
	for _, w := range words {
		if _, err := source.ParseRef(w); err != nil {
			return i, err
		}
	}
	words = append(words, "", "")
	return Item{Source: words[0], Dest: words[1]}, nil
}
